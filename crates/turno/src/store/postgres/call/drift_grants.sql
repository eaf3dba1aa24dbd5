-- Purpose: which role has too few or too many rights, by turno.rights(). A role that does not exist has its name alone;
--          public should have none, and where the settings name other roles than turno_app and turno_operator, those should have
--          none either. Of the latter two only direct grants count: an administrator may have made one a member of the others.
-- Index:   setting_pkey.
with chosen as (
  select
    max(s.value) filter (where s.name = 'app_role') as app,
    max(s.value) filter (where s.name = 'operator_role') as operators
  from turno.settings() s)
select
  w.role,
  w.id is not null as exists,
  not w.is_chosen or coalesce(has_schema_privilege(w.id, 'turno', 'usage'), false) as usage,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.should and not may.can), '{}') as missing,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.can and not may.should), '{}') as excess
from (
  -- Zero is how PostgreSQL numbers public.
  select 'public' as role, 0::oid as id, false as is_chosen, false as is_operator
  union all
  select c.app, r.oid, true, false
  from chosen c
  left join pg_roles r on r.rolname = c.app
  union all
  select c.operators, r.oid, true, true
  from chosen c
  left join pg_roles r on r.rolname = c.operators
  union all
  select r.rolname::text, r.oid, false, false
  from chosen c
  join pg_roles r on r.rolname in ('turno_app', 'turno_operator')
  where r.rolname not in (c.app, c.operators)) w
join pg_proc p on p.pronamespace = 'turno'::regnamespace
left join turno.rights() t on t.function = p.proname
cross join lateral (
  select
    w.is_chosen and (t.role = w.role or w.is_operator and t.role is not null) as should,
    case
      when w.is_chosen or w.id = 0 then coalesce(has_function_privilege(w.id, p.oid, 'execute'), false)
      else exists (
        select from aclexplode(p.proacl) g
        where g.grantee = w.id)
    end as can) may
group by w.role, w.id, w.is_chosen
order by w.role
