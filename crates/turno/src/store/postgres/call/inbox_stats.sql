-- Calls turno.inbox_stats. $1 queue, $2 prefix.
select queue, total, pending, scheduled, processing, completed, failed, oldest_pending
from turno.inbox_stats($1, $2)
