-- Calls turno.inbox_claim. $1 queue, $2 worker, $3 limit, $4 lease, $5 request. It is the whole transaction, so it need
-- not be durable.
select id, attempt, max_attempts, payload::text, key, "group", priority, pushed_at, expires_at
from turno.inbox_claim($1, $2, $3, $4, $5, false)
