-- Calls turno.setting_set. $1 name, $2 value (null for the default), $3 user.
select
  was.value as before,
  turno.setting_set($1, $2, $3) as value
from (select 1) one
left join turno.settings() was on was.name = $1
