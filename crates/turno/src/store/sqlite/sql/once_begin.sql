-- Purpose: begin the work of a key, new or gone or taken over; that it may be is known already.
-- Parameters: :key :fingerprint :request :worker :now :until :ttl :scope :sweep_at :unknown (how long that is kept)
-- Index: the primary key.
--
-- A run that was given back does not count as an attempt, and a new life begins with one. Tokens follow the clock, one
-- more than the last at least, and above those of every purged row.
insert into turno_once as t (
  key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, sweep_at)
values (
  :key, :fingerprint, 'running', max(:now, (select token + 1 from turno_lock_floor)), 1, :request, :worker, :now, :until,
  :ttl, :scope, :sweep_at)
on conflict (key) do update
set fingerprint = excluded.fingerprint,
    state       = 'running',
    token       = max(:now, t.token + 1),
    attempt     = case
      when t.state = 'running' and t.until + max(t.ttl, :unknown) > :now then t.attempt + 1
      when t.state = 'released' then t.attempt
      else 1
    end,
    request     = excluded.request,
    worker      = excluded.worker,
    began_at    = excluded.began_at,
    until       = excluded.until,
    ttl         = excluded.ttl,
    scope       = excluded.scope,
    sweep_at    = excluded.sweep_at,
    answer      = null
returning key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, answer
