-- Purpose: may this owner go first? True while nobody stands in line. :resource :owner :now.
-- Index: the unique index of turno_lock_waiter.
select coalesce(
  (select w.owner = :owner
   from turno_lock_waiter w
   where w.resource = :resource
     and w.fifo
     and w.alive_until > :now
   order by w.ticket
   limit 1),
  true)
