-- Calls turno.once_status. $1 key.
select key, state, claim, attempt, fingerprint, worker, scope, began_at, expires_at, late, answer
from turno.once_status($1)
