-- Purpose: forget the keys of items that were discarded long ago. ?1 before ?2 batch. Index: turno_inbox_key_done.
delete from turno_inbox_key
where (queue, key) in (
  select queue, key
  from turno_inbox_key
  where done_at < ?1
  order by done_at
  limit ?2)
