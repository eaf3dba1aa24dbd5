-- Calls turno.inbox_complete_batch. $1 tokens, $2 the items of each, as ranges, $3 a request for each.
select done, stale
from turno.inbox_complete_batch($1, $2::text[]::int8multirange[], $3)
