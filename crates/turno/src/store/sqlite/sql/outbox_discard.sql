-- Purpose: the record of an event that was given up. ?1 id ?2 now ?3 by.
insert or ignore into turno_outbox_discarded (id, at, "by")
values (?1, ?2, ?3)
