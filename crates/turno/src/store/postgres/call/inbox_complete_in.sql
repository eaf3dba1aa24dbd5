-- Calls turno.inbox_complete in the caller's transaction, whatever the driver. $1 claims, as text.
select done, stale
from turno.inbox_complete($1::text[])
