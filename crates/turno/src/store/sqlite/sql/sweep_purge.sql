-- Purpose: forget resources long unused. :before :now :batch.
delete from turno_lock
where resource in (
  select resource
  from turno_lock
  where holds = 0
    and acquired_at < :before
    and coalesce(min_until, 0) < :now
    and coalesce(fifo_until, 0) < :now
  order by resource
  limit :batch)
