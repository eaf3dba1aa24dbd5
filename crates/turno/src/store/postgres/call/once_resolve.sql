-- Calls turno.once_resolve. $1 key, $2 answer, $3 user, $4 reason.
select outcome, attempt, began_at, expires_at, remaining, worker
from turno.once_resolve($1, $2::text::json, $3, $4)
