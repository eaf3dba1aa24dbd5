-- Purpose: forget old history. :before :batch. Index: the primary key, which grows with time.
delete from turno_lock_history
where id in (
  select id
  from turno_lock_history
  order by id
  limit :batch)
  and at < :before
