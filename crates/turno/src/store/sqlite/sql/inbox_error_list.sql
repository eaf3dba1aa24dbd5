-- Purpose: an item's errors, oldest first. ?1 item. Index: the primary key.
select attempt, at, kind, error, worker
from turno_inbox_error
where item = ?1
order by number
