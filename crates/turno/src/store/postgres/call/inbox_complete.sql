-- Calls turno.inbox_complete_batch. $1 items, $2 tokens, $3 a request for each.
select done, stale
from turno.inbox_complete_batch($1, $2, $3)
