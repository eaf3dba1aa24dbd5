-- Purpose: raise the floor above the rows that sweep_purge.sql, with the same parameters, deletes next.
-- Parameters: :before :now :batch.
update turno_lock_floor
set token = max(token, coalesce(
  (select max(token)
   from (
     select token
     from turno_lock
     where holds = 0
       and acquired_at < :before
       and coalesce(min_until, 0) < :now
       and coalesce(fifo_until, 0) < :now
     order by resource
     limit :batch)),
  0))
