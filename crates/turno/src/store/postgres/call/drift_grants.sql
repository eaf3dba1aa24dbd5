-- Purpose: which role has too few or too many rights, by turno.rights(). A role that does not exist has its name alone;
--          public should have none.
-- Index:   none.
select
  w.role,
  w.id is not null as exists,
  w.role = 'public' or coalesce(has_schema_privilege(w.id, 'turno', 'usage'), false) as usage,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.should and not may.can), '{}') as missing,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.can and not may.should), '{}') as excess
from (
  select
    n.role,
    -- Zero is how PostgreSQL numbers public.
    case n.role when 'public' then 0::oid else r.oid end as id
  from (values ('public'), ('turno_app'), ('turno_operator')) n(role)
  left join pg_roles r on r.rolname = n.role) w
join pg_proc p on p.pronamespace = 'turno'::regnamespace
left join turno.rights() t on t.function = p.proname
cross join lateral (
  select
    w.role <> 'public' and coalesce(t.role = w.role or w.role = 'turno_operator' and t.role = 'turno_app', false) as should,
    coalesce(has_function_privilege(w.id, p.oid, 'execute'), false) as can) may
group by w.role, w.id
order by w.role
