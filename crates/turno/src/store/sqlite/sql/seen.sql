-- Purpose: true the first time only. ?1 consumer ?2 event ?3 now. Index: the primary key.
insert or ignore into turno_seen (consumer, event_id, at)
values (?1, ?2, ?3)
