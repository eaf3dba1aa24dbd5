-- name: access_any
-- Calls turno.access_any.
select turno.access_any() as found

-- name: access_create
-- Calls turno.access_create. $1 id, $2 hash, $3 name, $4 role, $5 prefix, $6 expires_in.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_create($1, $2, $3, $4, $5, $6)

-- name: access_find
-- Calls turno.access_find. $1 id.
select (view).id, (view).name, (view).role, (view).prefix, (view).state, (view).created_at, (view).expires_at, (view).revoked_at, hash
from turno.access_find($1)

-- name: access_list
-- Calls turno.access_list. $1 limit.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_list($1)

-- name: access_revoke
-- Calls turno.access_revoke. $1 id.
select turno.access_revoke($1) as ended
