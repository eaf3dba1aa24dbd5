-- Purpose: when, and by whom, an event was given up. ?1 id. Index: the primary key.
select at, "by"
from turno_outbox_discarded
where id = ?1
