-- Calls turno.sweep. $1 purge_after, $2 keep_history, $3 batch.
select expired, purged, waiters, history
from turno.sweep($1, $2, $3)
