-- Calls turno.access_list. $1 limit.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_list($1)
