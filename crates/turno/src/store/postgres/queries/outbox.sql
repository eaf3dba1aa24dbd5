-- name: mark_processed
-- Calls turno.seen. $1 consumer, $2 event_id, as text.
select turno.seen($1, $2::text::uuid) as first

-- name: outbox_claim
-- Calls turno.outbox_claim. $1 relay, $2 limit, $3 lease, $4 in_order, $5 token. It is durable: what is published next must be
-- known as claimed after a crash of PostgreSQL, or another copy has no label.
select seq, id, key, event, emitted_at, refused, doubtful, parked
from turno.outbox_claim($1, $2, $3, $4, $5)

-- name: outbox_discard
-- Calls turno.outbox_discard. $1 ids, $2 user, $3 reason.
select turno.outbox_discard($1, $2, $3) as many

-- name: outbox_emit
-- Calls turno.outbox_emit for one event without options, and else turno.outbox_emit_batch, which is more work for the server.
-- Whatever the driver: times and ids travel as text. $1 types, $2 payloads, $3 keys, $4 correlation_ids, $5 traceparents,
-- $6 tracestates, $7 headers, $8 delays, $9 ids, $10 request.
select case
  when cardinality($1) = 1 and octet_length($2[1]) <= 1048576 and num_nulls($5, $6, $7, $8::text[], $9::text[], $10::text) = 6
  then array[turno.outbox_emit($1[1], $2[1]::json, $3[1], $4[1])::text]
  else turno.outbox_emit_batch(
    $1, $2, $3, $4, $5, $6, $7, $8::text[]::interval[], $9::text[]::uuid[], 1073741823, $10::text::uuid)::text[]
end as ids

-- name: outbox_find
-- Calls turno.outbox_find. $1 id.
select seq, id, state, key, event::text, refused, doubtful, "by", emitted_at, at, errors::text
from turno.outbox_find($1)

-- name: outbox_leader
-- Calls turno.outbox_leader. $1 lock_id.
select turno.outbox_leader($1) as leader

-- name: outbox_list
-- Calls turno.outbox_list. $1 state, $2 after, $3 limit.
select seq, id, state, key, event::text, refused, doubtful, "by", emitted_at, at, errors::text
from turno.outbox_list($1, $2, $3)

-- name: outbox_recover
-- Calls turno.outbox_recover.
select turno.outbox_recover() as many

-- name: outbox_requeue
-- Calls turno.outbox_requeue. $1 ids, $2 limit, $3 user, $4 reason.
select turno.outbox_requeue($1, $2, $3, $4) as many

-- name: outbox_settle
-- Calls turno.outbox_settle. $1 token, $2 sent, $3 refused, $4 errors, $5 retry_ins, $6 dead, $7 doubtful, $8 archive,
-- $9 request, $10 deferred, $11 delays.
select sent, refused, returned, stale
from turno.outbox_settle($1, $2::text::int8multirange, $3, $4, $5, $6, $7::text::int8multirange, $8, $9, $10, $11)

-- name: outbox_stats
-- Calls turno.outbox_stats.
select total, pending, scheduled, processing, dispatched, dead, blocked, parked_keys, oldest_pending
from turno.outbox_stats()

-- name: outbox_try_lead
-- Tries to take the advisory lock of leader election, for this session. $1 lock_id.
select pg_try_advisory_lock($1) as alone
