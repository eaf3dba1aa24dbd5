-- The functions of adopted tables that role anon may call.
select f.oid::regprocedure::text as function
from turno.adopted a
join pg_namespace n on n.nspname = a.schema_name
cross join lateral unnest(a.functions) u (name)
cross join lateral to_regprocedure(u.name) f (oid)
where f.oid is not null
  and has_schema_privilege('anon', n.oid, 'usage')
  and has_function_privilege('anon', f.oid, 'execute')
order by 1
