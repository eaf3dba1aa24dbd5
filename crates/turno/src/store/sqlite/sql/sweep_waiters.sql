-- Purpose: forget waiters that died. :now.
delete from turno_lock_waiter
where alive_until < :now
