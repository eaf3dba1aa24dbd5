-- name: once_begin
-- Calls turno.once_begin. $1 key, $2 fingerprint, $3 lease, $4 ttl, $5 unknown, $6 worker, $7 waits, $8 scope, $9 quota, $10 request.
select request.request, o.outcome, o.token, o.attempt, o.answer, o.began_at, o.expires_at, o.remaining, o.worker
from (select $10::uuid as request) request
cross join lateral turno.once_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, request.request) o

-- name: once_begin_batch
-- Calls turno.once_begin_batch. $1 keys, $2 fingerprints, $3 leases, $4 ttls, $5 unknowns, $6 workers, $7 waits, $8 scopes, $9 quotas, $10 requests.
select
  request, (answer).outcome, (answer).token, (answer).attempt, (answer).answer, (answer).began_at, (answer).expires_at,
  (answer).remaining, (answer).worker
from turno.once_begin_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: once_complete_batch
-- Calls turno.once_complete_batch. $1 keys, $2 tokens, $3 answers, $4 ttls.
select place, outcome
from turno.once_complete_batch($1, $2, $3, $4)

-- name: once_complete_in
-- Calls turno.once_complete. $1 claim, $2 answer, $3 ttl, as text: drivers differ in what they know.
select turno.once_complete($1, $2::text::json, $3::text::interval)

-- name: once_extend
-- Calls turno.once_extend. $1 claim, $2 lease.
select turno.once_extend($1, $2) as done

-- name: once_forget
-- Calls turno.once_forget. $1 key, $2 user, $3 reason.
select turno.once_forget($1, $2, $3) as done

-- name: once_list
-- Calls turno.once_list. $1 state, $2 prefix, $3 after, $4 limit.
select key, state, claim, attempt, fingerprint, worker, scope, began_at, expires_at, late, answer
from turno.once_list($1, $2, $3, $4)

-- name: once_release
-- Calls turno.once_release. $1 claim, $2 unknown.
select turno.once_release($1, $2) as done

-- name: once_resolve
-- Calls turno.once_resolve. $1 key, $2 answer, $3 user, $4 reason.
select outcome, attempt, began_at, expires_at, remaining, worker
from turno.once_resolve($1, $2::text::json, $3, $4)

-- name: once_status
-- Calls turno.once_status. $1 key.
select key, state, claim, attempt, fingerprint, worker, scope, began_at, expires_at, late, answer
from turno.once_status($1)
