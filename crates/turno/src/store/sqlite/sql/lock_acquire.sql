-- Purpose: take a resource exclusively, new or not. No row comes back when it may not be taken.
-- Parameters: :resource :owner :now :expires_at :min_until :max_until :user :service :description :host
--             :pid :request
-- Index: the primary key; the unique index of turno_lock_waiter.
--
-- The rule: a lock may be taken when it is free or expired, its min_hold has passed, and nobody who
-- asked for FIFO stands ahead. Tokens follow the clock, one more than the last at least, and above
-- that of every purged row.
insert into turno_lock as t (
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids)
values (
  :resource, max(:now, (select token + 1 from turno_lock_floor)), 'exclusive', :owner, 1, :now, :expires_at,
  :min_until, :max_until, :user, :service, :description, :host, :pid, :request)
on conflict (resource) do update
set token       = max(:now, t.token + 1),
    mode        = 'exclusive',
    owner       = excluded.owner,
    holds       = 1,
    acquired_at = excluded.acquired_at,
    expires_at  = excluded.expires_at,
    min_until   = excluded.min_until,
    max_until   = excluded.max_until,
    user        = excluded.user,
    service     = excluded.service,
    description = excluded.description,
    host        = excluded.host,
    pid         = excluded.pid,
    hold_ids    = excluded.hold_ids,
    requests    = ''
where (t.holds = 0 or t.expires_at <= :now)
  and (t.min_until is null or t.min_until <= :now)
  and (t.fifo_until is null or t.fifo_until <= :now or coalesce(
    (select w.owner = :owner
     from turno_lock_waiter w
     where w.resource = :resource
       and w.fifo
       and w.alive_until > :now
     order by w.ticket
     limit 1),
    true))
returning
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests
