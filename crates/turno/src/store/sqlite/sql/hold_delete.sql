-- Purpose: one shared hold less. :resource :token. Index: the primary key.
delete from turno_lock_hold
where resource = :resource
  and token = :token
