-- Calls turno.sweep. $1 purge_after, $2 keep_history, $3 batch, $4 keep_completed.
select expired, purged, waiters, history, completed
from turno.sweep($1, $2, $3, $4)
