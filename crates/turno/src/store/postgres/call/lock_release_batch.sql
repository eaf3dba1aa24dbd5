-- Calls turno.lock_release_batch. $1 resources, $2 tokens, $3 holds, $4 requests.
select place, (answer).outcome, (answer).holds
from turno.lock_release_batch($1, $2, $3, $4)
