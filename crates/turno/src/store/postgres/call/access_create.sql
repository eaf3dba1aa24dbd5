-- Calls turno.access_create. $1 id, $2 hash, $3 name, $4 role, $5 prefix, $6 expires_in.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_create($1, $2, $3, $4, $5, $6)
