-- Calls turno.inbox_complete_batch. $1 items, $2 tokens, $3 request.
select done, stale
from turno.inbox_complete_batch($1, $2, $3)
