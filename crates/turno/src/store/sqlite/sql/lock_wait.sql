-- Purpose: sign a waiter in, or say that it is still there; it keeps its ticket then.
-- Parameters: :resource :owner :fifo :now :alive_until :user :service :description
-- Index: the unique index of turno_lock_waiter.
insert into turno_lock_waiter (resource, owner, fifo, since, alive_until, user, service, description)
values (:resource, :owner, :fifo, :now, :alive_until, :user, :service, :description)
on conflict (resource, owner) do update
set alive_until = excluded.alive_until,
    fifo        = excluded.fifo
