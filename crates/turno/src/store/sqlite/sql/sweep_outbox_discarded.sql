-- Purpose: forget what is too old. ?1 before ?2 batch. Index: turno_outbox_discarded_at.
delete from turno_outbox_discarded
where id in (
  select id
  from turno_outbox_discarded
  where at < ?1
  order by at
  limit ?2)
