-- Purpose: forget items completed long ago. ?1 before ?2 batch. Index: turno_inbox_done_at.
delete from turno_inbox_done
where (queue, id) in (
  select queue, id
  from turno_inbox_done
  where at < ?1
  order by at, queue, id
  limit ?2)
