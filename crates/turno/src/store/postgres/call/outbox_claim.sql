-- Calls turno.outbox_claim. $1 relay, $2 limit, $3 lease, $4 in_order, $5 token. It is the whole transaction, so it need
-- not be durable.
select seq, id, key, event, emitted_at, refused, doubtful, parked
from turno.outbox_claim($1, $2, $3, $4, $5, false)
