-- Calls turno.inbox_extend_batch. $1 items, $2 tokens, $3 lease.
select done, stale
from turno.inbox_extend_batch($1, $2, $3)
