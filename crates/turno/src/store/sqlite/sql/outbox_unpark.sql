-- Purpose: a key goes on. ?1 key. Index: the primary key.
delete from turno_outbox_parked
where key = ?1
