-- Calls turno.sweep. $1 purge_after, $2 keep_history, $3 batch, $4 keep_completed, $5 keep_archive, $6 keep_seen,
-- $7 keep_failed.
select expired, purged, waiters, history, completed, archived, seen, once, failed
from turno.sweep($1, $2, $3, $4, $5, $6, $7)
