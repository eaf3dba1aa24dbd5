-- Purpose: the role that may call a function, read from the catalog, which every role may read: a caller without rights cannot ask
--          turno.rights(). $1 is the function; null for any. The role with the fewest rights is the first: that of applications.
-- Index:   pg_proc_proname_args_nsp_index is no help; the schema has some two hundred functions.
select quote_ident(r.rolname) as role
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
cross join lateral aclexplode(p.proacl) g
join pg_roles r on r.oid = g.grantee
where n.nspname = 'turno'
  and g.grantee <> p.proowner
  -- It has what applications have, and is no role for people to be a member of.
  and r.rolname <> 'service_role'
group by r.oid, r.rolname
-- A role to which a single function was granted by hand is none of the two.
having bool_or(p.proname = 'schema_version')
  and ($1 is null or bool_or(p.proname = $1))
order by count(*), r.rolname
limit 1
