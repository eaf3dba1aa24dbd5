-- Purpose: are the events of a key set aside? ?1 key. Index: the primary key.
select exists (
  select 1
  from turno_outbox_parked
  where key = ?1)
