-- Calls turno.lock_acquire_batch. $1 resources, $2 owners, $3 ttls, $4 users, $5 services, $6 descriptions,
-- $7 hosts, $8 pids, $9 requests.
select outcome, resource, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_acquire_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)
