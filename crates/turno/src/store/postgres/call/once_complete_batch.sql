-- Calls turno.once_complete_batch. $1 keys, $2 tokens, $3 answers, $4 ttls.
select place, outcome
from turno.once_complete_batch($1, $2, $3, $4)
