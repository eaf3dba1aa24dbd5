-- Purpose: forget what is too old. ?1 before ?2 batch. Index: turno_outbox_archive_at.
delete from turno_outbox_archive
where seq in (
  select seq
  from turno_outbox_archive
  where dispatched_at < ?1
  order by dispatched_at
  limit ?2)
