-- name: inbox_claim
-- Calls turno.inbox_claim_batch. $1 queue, $2 worker, $3 limit, $4 lease, $5 token, $6 max_bytes. It is the whole transaction, so it
-- need not be durable. A row without an id: another transaction claims from the queue, and nothing was claimed.
select id, attempt, max_attempts, payload, key, "group", priority, pushed_at, expires_at, abandoned
from turno.inbox_claim_batch($1, $2, $3, $4, $5, false, true, true, $6)

-- name: inbox_complete
-- Calls turno.inbox_complete_batch. $1 tokens, $2 the items of each, as ranges, $3 a request for each.
select done, stale
from turno.inbox_complete_batch($1, $2::text[]::int8multirange[], $3)

-- name: inbox_complete_batch
-- Calls turno.inbox_complete_batch for several callers. $1 tokens, $2 the items of each, as ranges, $3 a request for each. A claim
-- that another transaction is settling must not keep the other callers waiting: so this gives up soon.
with limits as materialized (
    select set_config('lock_timeout', '100ms', true) as lock_timeout)
select c.done, c.stale
from limits l
cross join lateral turno.inbox_complete_batch(
    case when l.lock_timeout is not null then $1::uuid[] end, $2::text[]::int8multirange[], $3) c

-- name: inbox_complete_in
-- Calls turno.inbox_complete in the caller's transaction, whatever the driver. $1 claims, as text.
select done, stale
from turno.inbox_complete($1::text[])

-- name: inbox_discard
-- Calls turno.inbox_discard. $1 queue, $2 items, $3 limit, $4 user, $5 reason.
select turno.inbox_discard($1, $2, $3, $4, $5) as many

-- name: inbox_extend
-- Calls turno.inbox_extend_batch. $1 items, $2 tokens, $3 lease.
select done, stale
from turno.inbox_extend_batch($1, $2, $3)

-- name: inbox_fail
-- Calls turno.inbox_fail_batch. $1 items, $2 tokens, $3 errors, $4 times to the next attempt, $5 whether there is none,
-- $6 request.
select done, stale
from turno.inbox_fail_batch($1, $2, $3, $4, $5, $6)

-- name: inbox_give_back
-- Calls turno.inbox_give_back_batch. $1 items, $2 tokens, $3 request.
select done, stale
from turno.inbox_give_back_batch($1, $2, $3)

-- name: inbox_idle
-- Calls turno.inbox_idle. $1 queue, $2 listens, $3 looked.
select due, sure
from turno.inbox_idle($1, $2, $3)

-- name: inbox_list
-- Calls turno.inbox_list. $1 queue, $2 state, $3 after, $4 limit.
select id, payload::text, key, "group", priority, attempts, abandoned, worker, pushed_at, at, errors::text
from turno.inbox_list($1, $2, $3, $4)

-- name: inbox_poll
-- Calls turno.inbox_poll. $1 queue, $2 lasts.
select turno.inbox_poll($1, $2)

-- name: inbox_push
-- Calls turno.inbox_push_batch. $1 queue, $2 payloads, $3 keys, $4 priorities, $5 delays, $6 run_ats, $7 groups,
-- $8 max_attempts, $9 request. The library has checked the payloads against its own limit, which may be above the
-- default one.
select ids, duplicates
from turno.inbox_push_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, 1073741823)

-- name: inbox_push_batch
-- Calls turno.inbox_push_together. $1 queues, $2 sizes, $3 requests, $4 payloads, $5 keys, $6 priorities, $7 delays,
-- $8 run_ats, $9 groups, $10 max_attempts. The library has checked the payloads against its own limit.
select place, ids, duplicates
from turno.inbox_push_together($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1073741823)

-- name: inbox_push_in
-- Calls turno.inbox_push_batch in the caller's transaction, whatever the driver: times travel as text. $1 queue,
-- $2 payloads, $3 keys, $4 priorities, $5 delays, $6 run_ats, $7 groups, $8 max_attempts.
select ids, duplicates
from turno.inbox_push_batch($1, $2, $3, $4, $5::text[]::interval[], $6::text[]::timestamptz[], $7, $8, null, 1073741823)

-- name: inbox_queues
-- Calls turno.inbox_queues. $1 ids, $2 tokens.
select place, queue
from turno.inbox_queues($1, $2)

-- name: inbox_requeue
-- Calls turno.inbox_requeue. $1 queue, $2 items, $3 limit, $4 user, $5 reason.
select turno.inbox_requeue($1, $2, $3, $4, $5) as many

-- name: inbox_configure
-- Calls turno.inbox_configure. $1 queue, $2 change, $3 user, $4 reason.
select turno.inbox_configure($1, $2::text::jsonb, $3, $4)::text as settings

-- name: inbox_settings
-- Calls turno.inbox_settings. $1 queue.
select turno.inbox_settings($1)::text as settings

-- name: inbox_reset
-- Calls turno.inbox_reset. $1 queue, $2 older than, $3 limit, $4 user, $5 reason.
select turno.inbox_reset($1, $2, $3, $4, $5) as many

-- name: inbox_rouse
-- Calls turno.inbox_rouse. $1 queue.
select turno.inbox_rouse($1)

-- name: inbox_stats
-- Calls turno.inbox_stats. $1 queue, $2 prefix.
select queue, total, pending, scheduled, processing, completed, failed, oldest_pending
from turno.inbox_stats($1, $2)

-- name: inbox_wait
-- Calls turno.inbox_wait. $1 queue.
select turno.inbox_wait($1) as next_due

-- name: schedule_state
-- Calls turno.schedule_state. $1 name.
select now, last
from turno.schedule_state($1)

-- name: schedule_tick
-- Calls turno.schedule_tick. $1 name, $2 tick, $3 queue, $4 payload, $5 key, $6 priority, $7 delay, $8 run_at, $9 group,
-- $10 max_attempts. The library has checked the payload against its own limit.
select ours, id
from turno.schedule_tick($1, $2, $3, $4::json, $5, $6, $7, $8, $9, $10, 1073741823)
