-- Purpose: forget old deeds. :before :batch. Index: the primary key, which grows with time.
delete from turno_deed
where id in (
  select id
  from turno_deed
  order by id
  limit :batch)
  and at < :before
