-- Calls turno.inbox_fail_batch. $1 items, $2 tokens, $3 errors, $4 times to the next attempt, $5 whether there is none,
-- $6 request.
select done, stale
from turno.inbox_fail_batch($1, $2, $3, $4, $5, $6)
