-- Purpose: a queue's number. ?1 name. Index: turno_inbox_queue's unique name.
select id
from turno_inbox_queue
where name = ?1
