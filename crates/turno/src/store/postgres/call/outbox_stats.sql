-- Calls turno.outbox_stats.
select total, pending, scheduled, processing, dispatched, dead, blocked, parked_keys, oldest_pending
from turno.outbox_stats()
