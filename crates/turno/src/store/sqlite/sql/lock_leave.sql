-- Purpose: sign a waiter out. :resource :owner. Index: the unique index.
delete from turno_lock_waiter
where resource = :resource
  and owner = :owner
