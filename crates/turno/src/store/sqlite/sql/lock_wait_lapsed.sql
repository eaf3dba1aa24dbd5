-- Purpose: whoever was away for too long has lost its place in line. :resource :owner :now.
-- Index: the unique index.
delete from turno_lock_waiter
where resource = :resource
  and owner = :owner
  and alive_until <= :now
