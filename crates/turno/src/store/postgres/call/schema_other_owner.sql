-- The owner of schema turno, if it is not the current role.
select
  pg_get_userbyid(n.nspowner)::text as owner,
  current_user::text as role
from pg_namespace n
where n.nspname = 'turno'
  and pg_get_userbyid(n.nspowner) <> current_user
