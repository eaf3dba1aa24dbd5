-- Purpose: how many wait for a resource. :resource :now. Index: the unique index.
select count(*)
from turno_lock_waiter
where resource = :resource
  and alive_until > :now
