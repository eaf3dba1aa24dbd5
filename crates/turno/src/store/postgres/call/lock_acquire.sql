-- Calls turno.lock_acquire. $1 resource, $2 owner, $3 ttl, $4 user, $5 service, $6 description, $7 mode,
-- $8 permits, $9 min_hold, $10 max_hold, $11 host, $12 pid, $13 request. The library has checked the ttl
-- against its own limit, which may be above the default one.
select outcome, resource, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_acquire(
  $1, $2, $3, $4, $5, $6, null, $7, $8, $9, $10, $11, $12, $13, greatest($3, '24 hours'))
