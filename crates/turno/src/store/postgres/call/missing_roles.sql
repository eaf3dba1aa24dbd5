-- Purpose: the roles that the settings name and that do not exist in this cluster.
-- Index:   setting_pkey.
select s.value as role
from turno.settings() s
where s.name in ('app_role', 'operator_role')
  and not exists (
    select from pg_roles r
    where r.rolname = s.value)
order by s.name
