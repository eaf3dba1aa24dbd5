-- name: once_begin
-- Purpose: begin a run of a key: new, expired or taken over. The caller has checked that it may begin.
-- Parameters: :key :fingerprint :request :worker :now :until :ttl :scope :sweep_at :unknown (how long that is kept)
-- Index: the primary key.
--
-- A released run does not count as an attempt, nor does one whose response was lost; an expired key begins with attempt 1. The
-- token follows the clock, is greater than the last one, and greater than those of every purged row.
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
      when t.state = 'running' and t.until + max(t.ttl, :unknown) > :now then t.attempt + (t.request <> :request)
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

-- name: once_complete
-- Purpose: end a run with its answer. ?1 key ?2 token ?3 answer ?4 ttl, or null ?5 now. Index: the primary key.
update turno_once
set state    = 'done',
    until    = ?5 + coalesce(?4, ttl),
    sweep_at = max(sweep_at, ?5 + coalesce(?4, ttl)),
    answer   = ?3
where key = ?1
  and token = ?2
  and state = 'running'

-- name: once_count_late
-- Purpose: count a call that came too late, after another run has begun. ?1 key ?2 token. Index: the primary key.
update turno_once
set late = late + 1
where key = ?1
  and token <> ?2

-- name: once_extend
-- Purpose: extend a run, also after its lease expired if no other run has begun. ?1 key ?2 token ?3 until. Its caller has got the
--          answer to its begin, so a repetition of that call must not begin again: the request goes.
-- Index: the primary key.
update turno_once
set until    = max(until, ?3),
    sweep_at = max(sweep_at, ?3),
    request  = ''
where key = ?1
  and token = ?2
  and state = 'running'

-- name: once_find
-- Purpose: what is known of a key. ?1 key. Index: the primary key.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, answer
from turno_once
where key = ?1

-- name: once_forget
-- Purpose: forget a key that is done or unknown; an operator decides. ?1 key ?2 now ?3 how long unknown is kept.
-- Index: the primary key.
delete from turno_once
where key = ?1
  and ((state = 'done' and until > ?2) or (state = 'running' and until <= ?2 and until + max(ttl, ?3) > ?2))
returning token

-- name: once_has_ended
-- Purpose: whether a run has ended in this state. ?1 key ?2 token ?3 state. Index: the primary key.
select count(*) > 0
from turno_once
where key = ?1
  and token = ?2
  and state = ?3

-- name: once_list
-- Purpose: a page of the keys, without their answers; in ?1 state (in_flight, done, unknown) or all, ?2 prefix ?3 after ?4 limit
--          ?5 now ?6 how long unknown is kept.
-- Index: the primary key.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, null
from turno_once
where key > ?3
  and key >= ?2
  and substr(key, 1, length(?2)) = ?2
  and case state
    when 'done' then until > ?5 and coalesce(?1, 'done') = 'done'
    when 'running' then
      case
        when until > ?5 then coalesce(?1, 'in_flight') = 'in_flight'
        else until + max(ttl, ?6) > ?5 and coalesce(?1, 'unknown') = 'unknown'
      end
    else false
  end
order by key
limit ?4

-- name: once_list_open
-- Purpose: a page of the keys that are in flight or unknown (?1 state), without their answers; ?2 prefix ?3 after ?4 limit
--          ?5 now ?6 how long unknown is kept.
-- Index: turno_once_open.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, null
from turno_once
where state = 'running'
  and key > ?3
  and key >= ?2
  and substr(key, 1, length(?2)) = ?2
  and case
    when until > ?5 then ?1 = 'in_flight'
    else until + max(ttl, ?6) > ?5 and ?1 = 'unknown'
  end
order by key
limit ?4

-- name: once_release
-- Purpose: end a run that had no effect. ?1 key ?2 token ?3 now. Index: the primary key.
update turno_once
set state  = 'released',
    until  = ?3,
    answer = null
where key = ?1
  and token = ?2
  and state = 'running'

-- name: once_release_unknown
-- Purpose: end a run with an unknown outcome, as if its lease had expired. ?1 key ?2 token ?3 now.
-- Index: the primary key.
update turno_once
set until   = min(until, ?3),
    request = ''
where key = ?1
  and token = ?2
  and state = 'running'

-- name: once_resolve
-- Purpose: give an answer to a key that is unknown, which the caller has checked; an operator decides. The token is a new
--          one, so that the claim of the lost run is stale. ?1 key ?2 answer ?3 now.
-- Index: the primary key.
update turno_once
set state    = 'done',
    token    = max(?3, token + 1),
    until    = ?3 + ttl,
    sweep_at = max(sweep_at, ?3 + ttl),
    answer   = ?2
where key = ?1

-- name: once_scope_is_full
-- Purpose: whether a scope has as many live keys as it may. ?1 scope ?2 now ?3 most ?4 how long unknown is kept.
-- Index: turno_once_scope.
select count(*) >= ?3
from (
  select 1
  from turno_once
  where scope = ?1
    and sweep_at > ?2
    and ((state = 'done' and until > ?2) or (state = 'running' and until + max(ttl, ?4) > ?2))
  limit ?3)
