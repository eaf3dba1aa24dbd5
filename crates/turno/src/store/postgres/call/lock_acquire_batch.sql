-- Calls turno.lock_acquire_batch. $1 resources, $2 owners, $3 ttls, $4 users, $5 services, $6 descriptions,
-- $7 hosts, $8 pids, $9 requests.
select
  place, (answer).outcome, (answer).resource, (answer).owner, (answer).token, (answer).holds,
  (answer).acquired_at, (answer).expires_at, (answer).remaining, (answer)."user", (answer).service,
  (answer).description
from turno.lock_acquire_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)
