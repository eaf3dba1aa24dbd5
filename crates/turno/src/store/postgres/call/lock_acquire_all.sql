-- Calls turno.lock_acquire_all. $1 resources, $2 owner, $3 ttl, $4 user, $5 service, $6 description,
-- $7 min_hold, $8 max_hold, $9 host, $10 pid, $11 request.
select outcome, resource, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_acquire_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, greatest($3, '24 hours'))
