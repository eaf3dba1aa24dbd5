-- Purpose: mark the lock row, so that others look at the line first. :resource :alive_until.
-- Index: the primary key.
update turno_lock
set fifo_until = max(coalesce(fifo_until, :alive_until), :alive_until)
where resource = :resource
