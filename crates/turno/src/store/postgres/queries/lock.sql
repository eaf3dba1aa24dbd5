-- name: lock_acquire
-- Calls turno.lock_acquire. $1 resource, $2 owner, $3 ttl, $4 user, $5 service, $6 description, $7 mode,
-- $8 permits, $9 min_hold, $10 max_hold, $11 host, $12 pid, $13 request. The library has checked the ttl
-- against its own limit, which may be above the default one.
select outcome, resource, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_acquire(
  $1, $2, $3, $4, $5, $6, null, $7, $8, $9, $10, $11, $12, $13, greatest($3, '24 hours'))

-- name: lock_acquire_all
-- Calls turno.lock_acquire_all. $1 resources, $2 owner, $3 ttl, $4 user, $5 service, $6 description,
-- $7 min_hold, $8 max_hold, $9 host, $10 pid, $11 request.
select outcome, resource, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_acquire_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, greatest($3, '24 hours'))

-- name: lock_acquire_batch
-- Calls turno.lock_acquire_batch. $1 resources, $2 owners, $3 ttls, $4 users, $5 services, $6 descriptions,
-- $7 hosts, $8 pids, $9 requests.
select
  place, (answer).outcome, (answer).resource, (answer).owner, (answer).token, (answer).holds,
  (answer).acquired_at, (answer).expires_at, (answer).remaining, (answer)."user", (answer).service,
  (answer).description
from turno.lock_acquire_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: lock_break
-- Calls turno.lock_break. $1 resource, $2 token, $3 reason, $4 user, $5 request.
select turno.lock_break($1, $2, $3, $4, $5)

-- name: lock_guard
-- Calls turno.lock_guard, in the caller's transaction. $1 resource, $2 token.
select turno.lock_guard($1, $2)

-- name: lock_list
-- Calls turno.lock_list. $1 prefix, $2 after, $3 limit.
select locked, resource, mode, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description, host, pid, waiters
from turno.lock_list($1, $2, $3)

-- name: lock_release
-- Calls turno.lock_release. $1 resource, $2 token, $3 hold, $4 request.
select outcome, holds
from turno.lock_release($1, $2, $3, $4)

-- name: lock_release_batch
-- Calls turno.lock_release_batch. $1 resources, $2 tokens, $3 holds, $4 requests.
select place, (answer).outcome, (answer).holds
from turno.lock_release_batch($1, $2, $3, $4)

-- name: lock_renew
-- Calls turno.lock_renew. $1 resource, $2 token, $3 ttl.
select outcome, expires_at, remaining
from turno.lock_renew($1, $2, $3, greatest($3, '24 hours'))

-- name: lock_renew_batch
-- Calls turno.lock_renew_batch. $1 resources, $2 tokens, $3 ttls.
select place, (answer).outcome, (answer).expires_at, (answer).remaining
from turno.lock_renew_batch($1, $2, $3)

-- name: lock_status
-- Calls turno.lock_status. $1 resource.
select locked, resource, mode, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description, host, pid, waiters
from turno.lock_status($1)

-- name: lock_waiter_register
-- Calls turno.lock_wait. $1 resource, $2 owner, $3 fifo, $4 user, $5 service, $6 description.
select turno.lock_wait($1, $2, $3, $4, $5, $6)

-- name: lock_waiter_register_batch
-- Calls turno.lock_wait for each waiter, ordered by name: two processes that register the same waiters cannot deadlock. $1 resources, $2 owners, $3 fifos, $4 users, $5 services, $6 descriptions.
select
  a.place,
  turno.lock_wait(a.resource, a.owner, a.fifo, a."user", a.service, a.description) as lock_wait
from (
  select w.*
  from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::text[], $6::text[])
    with ordinality w(resource, owner, fifo, "user", service, description, place)
  order by w.resource, w.owner
  offset 0) a

-- name: lock_waiter_unregister
-- Calls turno.lock_leave. $1 resource, $2 owner.
select turno.lock_leave($1, $2)
