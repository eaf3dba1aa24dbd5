-- Calls turno.once_list. $1 state, $2 prefix, $3 after, $4 limit.
select key, state, claim, attempt, fingerprint, worker, scope, began_at, expires_at, late, answer
from turno.once_list($1, $2, $3, $4)
