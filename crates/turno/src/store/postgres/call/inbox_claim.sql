-- Calls turno.inbox_claim_batch. $1 queue, $2 worker, $3 limit, $4 lease, $5 token, $6 max_bytes. It is the whole transaction, so it
-- need not be durable. A row without an id: another transaction claims from the queue, and nothing was claimed.
select id, attempt, max_attempts, payload, key, "group", priority, pushed_at, expires_at, abandoned
from turno.inbox_claim_batch($1, $2, $3, $4, $5, false, true, true, $6)
