-- Exclusive locks: when a lock may be taken, and taking it.

-- Purpose: the small rules that the lock functions share. None of them is for callers.
-- Index:   lock_waiter_pkey, lock_hold_pkey, lock_history_resource.

-- The outcome for a lock row. Only the holder gets the token; a busy outcome has none.
create or replace function turno.lock_answer(outcome text, l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  held_until timestamptz;
begin
  if l.mode = 'shared' then
    l := turno.lock_gate_live(l);
  end if;
  held_until := case when l.holds > 0 then l.expires_at else l.min_until end;
  if outcome <> 'busy' then
    return row(outcome, l.resource, l.owner, l.token, l.holds, l.acquired_at, l.expires_at,
               l.expires_at - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  if held_until > clock_timestamp() then
    return row(outcome, l.resource, l.owner, null, l.holds, l.acquired_at, held_until,
               held_until - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  return turno.lock_answer_soon(l.resource);
end
$$;

-- "Busy" without a time to wait for: free, but others are in line, or a row is being changed this very moment.
create or replace function turno.lock_answer_soon(resource text) returns turno.lock_outcome
language sql
immutable
as $$
  select row('busy', resource, null, null, 0, null, null, '0'::interval, null, null, null)::turno.lock_outcome
$$;

-- When a lock may be taken: the functions below are the only place with this rule, and every acquire and the sweep call
-- them. Each one is a single expression in language sql without settings, so the planner inlines it and it costs no call. The
-- parts that need a subquery are functions of their own, which are called for shared locks and for locks with waiters only.

-- Whether a hold, exclusive or shared, excludes other owners. A lock is taken over when this is no longer true.
create or replace function turno.lock_is_held(holds integer, expires_at timestamptz) returns boolean
language sql
volatile
as $$
  select holds > 0
    and expires_at > clock_timestamp()
$$;

-- Whether a resource has a shared hold that excludes an exclusive owner.
create or replace function turno.lock_is_shared(resource text) returns boolean
language sql
volatile
as $$
  select exists (
    select
    from turno.lock_hold h
    where h.resource = lock_is_shared.resource
      and turno.lock_is_held(h.holds, h.expires_at))
$$;

-- Whether a lock has such a hold. For a shared lock the rows of lock_hold decide; its own row can say too much, but not too little.
create or replace function turno.lock_is_taken(l turno.lock) returns boolean
language sql
volatile
as $$
  select case
    when l.mode = 'shared' then l.holds > 0 and turno.lock_is_shared(l.resource)
    else turno.lock_is_held(l.holds, l.expires_at)
  end
$$;

-- Whether the min_hold of an earlier hold has not passed.
create or replace function turno.lock_is_resting(l turno.lock) returns boolean
language sql
volatile
as $$
  select coalesce(l.min_until > clock_timestamp(), false)
$$;

-- Whether an owner is the first of the waiters that asked for first in, first out; true if there are none.
create or replace function turno.lock_is_first_waiter(resource text, owner text) returns boolean
language plpgsql
as $$
begin
  return coalesce(
    (select w.owner = lock_is_first_waiter.owner
     from turno.lock_waiter w
     where w.resource = lock_is_first_waiter.resource
       and w.fifo
       and w.alive_until > clock_timestamp()
     order by w.ticket
     limit 1),
    true);
end
$$;

-- Whether no waiter that asked for first in, first out is ahead of this owner.
create or replace function turno.lock_is_next(l turno.lock, owner text) returns boolean
language sql
volatile
as $$
  select l.fifo_until is null
    or l.fifo_until <= clock_timestamp()
    or turno.lock_is_first_waiter(l.resource, owner)
$$;

-- Whether an owner may take a lock for itself alone. The rule for shared locks is lock_is_shareable.
create or replace function turno.lock_is_takeable(l turno.lock, owner text) returns boolean
language sql
volatile
as $$
  select not turno.lock_is_taken(l)
    and not turno.lock_is_resting(l)
    and turno.lock_is_next(l, owner)
$$;

-- Names that are plainly good. Whatever is not is looked at again by lock_check, with an eye to the message.
-- (Stable, as concat_ws is: declared immutable, it could not be put in place, and would cost a call.)
create or replace function turno.lock_is_plain(
  owner text, "user" text, service text, description text, host text
) returns boolean
language sql
stable
as $$
  select octet_length(concat_ws('-', owner, "user", service, description, host)) <= 255
    and concat_ws('-', owner, "user", service, description, host) !~ '[[:cntrl:]]'
    and '' <> all (array[
      owner, coalesce("user", '-'), coalesce(service, '-'), coalesce(description, '-'), coalesce(host, '-')])
$$;

-- Refuses one hold more than an owner may have of one resource: each is kept until it is released, and the row grows with it.
create or replace function turno.lock_check_holds(holds integer) returns void
language plpgsql
immutable
as $$
begin
  if holds >= 1000 then
    raise exception 'owner has entered the resource % times, and 1000 is the most', holds
      using errcode = 'invalid_parameter_value', hint = 'Release what was acquired, or give each holder an owner of its own.';
  end if;
end
$$;

-- May this transaction make the row of a resource? Two that try at once must not wait for each other.
create or replace function turno.lock_may_create(resource text) returns boolean
language sql
volatile
as $$
  select pg_try_advisory_xact_lock(hashtextextended('turno.lock/' || resource, 0))
$$;

-- Was a lease ended by this very request, or given back with all its holds, this one among them? Then
-- it is being asked again because its answer was lost.
create or replace function turno.lock_was_ended(
  resource text,
  token    bigint,
  request  uuid,
  hold     uuid default null
) returns boolean
language sql
stable
as $$
  select exists (
    select
    from (
      select r.token, r.event, r.request
      from turno.lock_history r
      where r.resource = lock_was_ended.resource
      order by r.id desc
      limit 100) h
    where h.token = lock_was_ended.token
      and (h.request = lock_was_ended.request
        or (h.event = 'released' and lock_was_ended.hold is not null)))
$$;

-- The last eight releases that named no hold, so that one whose answer was lost can be sent again.
create or replace function turno.lock_remember(requests uuid[], request uuid) returns uuid[]
language sql
immutable
as $$
  select case
    when request is null then requests
    else (requests || request)[greatest(cardinality(requests) - 6, 1):]
  end
$$;

-- Ends whatever a row still holds, with one history row for each holding; says how many there were.
-- Changes no lock row.
create or replace function turno.lock_close(
  l       turno.lock,
  event   text,
  actor   text default null,
  reason  text default null,
  request uuid default null
) returns bigint
language plpgsql
as $$
begin
  if l.holds = 0 then
    return 0;
  end if;
  if l.mode = 'exclusive' then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid,
      acquired_at, expires_at, actor, reason, request)
    values (
      lock_close.event, l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description,
      l.host, l.pid, l.acquired_at, l.expires_at, lock_close.actor, lock_close.reason,
      lock_close.request);
    return 1;
  end if;
  return turno.lock_close_holds(l.resource, lock_close.event);
end
$$;

-- Records that a release or a renewal came too late: once for each lease and kind, however often a
-- zombie repeats it, and only for a token that was really granted.
create or replace function turno.lock_late(resource text, token bigint, what text) returns void
language sql
as $$
  with lately as (
    select r.*
    from turno.lock_history r
    where r.resource = lock_late.resource
    order by r.id desc
    limit 100)
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, reason)
  select
    'late', h.resource, h.token, h.mode, h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, lock_late.what
  from lately h
  where h.token = lock_late.token
    and not exists (
      select
      from lately o
      where o.token = lock_late.token
        and o.event = 'late'
        and o.reason = lock_late.what)
  order by h.id desc
  limit 1
$$;

-- A waiter in line that has died must not keep those behind it waiting: when a resource is released, all in line have ten
-- seconds to take it, or to sign in again.
create or replace function turno.lock_shorten_waiters(resource text) returns void
language sql
as $$
  update turno.lock_waiter w
  set alive_until = clock_timestamp() + '10 seconds'
  where w.resource = lock_shorten_waiters.resource
    and w.owner in (
      select o.owner
      from turno.lock_waiter o
      where o.resource = lock_shorten_waiters.resource
        and o.fifo
        and o.alive_until > clock_timestamp() + '10 seconds'
      -- One that is just signing in is alive.
      for update skip locked)
$$;

-- Notifies the waiters of a resource, if there are any. A notification costs every commit of the database a little, so it is
-- not sent without a waiter.
create or replace function turno.lock_notify(l turno.lock) returns void
language plpgsql
as $$
begin
  if l.waited_until > clock_timestamp() then
    perform turno.wake('turno_lock', l.resource);
  end if;
  if l.fifo_until > clock_timestamp() + '10 seconds' then
    perform turno.lock_shorten_waiters(l.resource);
  end if;
end
$$;

-- Purpose: every live holding, exclusive or shared, as one list. For the functions that show locks.
-- Index:   lock_pkey, lock_hold_pkey, lock_waiter_pkey.

create or replace view turno.lock_holders as
select
  t.resource, true as locked, t.mode,
  coalesce(h.owner, t.owner) as owner,
  coalesce(h.token, t.token) as token,
  coalesce(h.holds, t.holds) as holds,
  coalesce(h.acquired_at, t.acquired_at) as acquired_at,
  coalesce(h.expires_at, t.expires_at) as expires_at,
  coalesce(h.expires_at, t.expires_at) - clock_timestamp() as remaining,
  case when t.mode = 'shared' then h."user" else t."user" end as "user",
  case when t.mode = 'shared' then h.service else t.service end as service,
  case when t.mode = 'shared' then h.description else t.description end as description,
  case when t.mode = 'shared' then h.host else t.host end as host,
  case when t.mode = 'shared' then h.pid else t.pid end as pid,
  case
    when t.waited_until > clock_timestamp() then
      (select count(*) from turno.lock_waiter w
       where w.resource = t.resource and w.alive_until > clock_timestamp())
    else 0
  end as waiters
from turno.lock t
left join turno.lock_hold h
  on t.mode = 'shared'
  and h.resource = t.resource
where t.holds > 0
  -- Of a shared lock the holds decide: a renewal that found the gate locked has not changed it.
  and case when t.mode = 'shared' then h.expires_at else t.expires_at end > clock_timestamp();

-- Purpose: take a resource: acquired, reentered or busy. Exclusive locks are decided in this file,
--          shared holds and permits in lock_share.sql, and so is waiting.
-- Index:   lock_pkey.
--
-- The rule is lock_is_takeable. The owner of a held lock enters it again, with the same token.
--
-- A busy call writes nothing: the row is locked only under the condition that it may be taken, and is only read otherwise.
-- The time is read inside that statement and not before it, because a statement may wait. `skip locked` returns busy for a row
-- that another transaction is changing.
--
-- The row of a shared lock can be out of date: a release or a renewal that finds it locked does not change it. Whether such a
-- lock is held, and until when, is read from lock_hold.

create or replace function turno.lock_acquire(
  resource    text,
  owner       text     default null,
  ttl         interval default '30 seconds',
  "user"      text     default null,
  service     text     default null,
  description text     default null,
  wait        interval default null,
  mode        text     default 'exclusive',
  permits     integer  default null,
  min_hold    interval default null,
  max_hold    interval default null,
  host        text     default null,
  pid         integer  default null,
  request     uuid     default null,
  max_ttl     interval default '24 hours'
) returns turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  seen turno.lock_outcome;
  got  turno.lock_outcome;
begin
  owner := coalesce(owner, gen_random_uuid()::text);
  if wait is not null or permits is not null or mode is distinct from 'exclusive' then
    return turno.lock_acquire_wait(
      row(resource, owner, ttl, "user", service, description, mode, permits, min_hold, max_hold,
          host, pid, request, max_ttl)::turno.lock_ask,
      wait);
  end if;

  -- The usual case: the row exists, has no hold whose end would have to be recorded, and the arguments are plainly valid.
  if ttl between '1 millisecond' and max_ttl
     and ttl <= '24 hours'
     and min_hold is null
     and max_hold is null
     and (
       num_nonnulls("user", service, description, host) = 0 and turno.is_name(owner, 255)
       or turno.lock_is_plain(owner, "user", service, description, host)) then
    update turno.lock t
    set token       = greatest(t.token + 1, turno.next_token()),
        mode        = 'exclusive',
        owner       = lock_acquire.owner,
        holds       = 1,
        acquired_at = clock_timestamp(),
        expires_at  = clock_timestamp() + ttl,
        min_until   = null,
        max_until   = null,
        "user"      = lock_acquire."user",
        service     = lock_acquire.service,
        description = lock_acquire.description,
        host        = lock_acquire.host,
        pid         = lock_acquire.pid,
        hold_ids    = array[coalesce(request, turno.no_request())],
        requests    = '{}'
    where t.resource = (
      select k.resource
      from turno.lock k
      where k.resource = lock_acquire.resource
        and k.holds = 0
        and turno.lock_is_takeable(k, lock_acquire.owner)
      for update skip locked)
    returning
      'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
      t.expires_at - clock_timestamp(), t."user", t.service, t.description
    into got;
    if found then
      return got;
    end if;
  end if;

  -- The holder, in the form of the usual busy answer.
  select
    'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
    t.expires_at - clock_timestamp(), t."user", t.service, t.description
  into seen
  from turno.lock t
  where t.resource = lock_acquire.resource;

  -- The row of a shared lock has no owner, and its holds decide.
  if turno.lock_is_held(seen.holds, seen.expires_at) and seen.owner not in (lock_acquire.owner, '') then
    return seen;
  end if;

  return turno.lock_take(
    row(resource, owner, ttl, "user", service, description, mode, permits, min_hold, max_hold,
        host, pid, request, max_ttl)::turno.lock_ask);
end
$$;

comment on function turno.lock_acquire is
  'Takes a resource. outcome: acquired (token is the fencing token), reentered (same owner: same token, one hold more) or busy (remaining, user, service and description tell who has it; token is null; nothing is written). wait retries for that long; mode shared or permits N let several hold it at once.';

-- Every other case: a new resource, an expired hold, a re-entry, a shared lock.
create or replace function turno.lock_take(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  was turno.lock;
  now turno.lock;
begin
  perform turno.lock_check(ask);
  ask.request := coalesce(ask.request, gen_random_uuid());

  select * into was
  from turno.lock t
  where t.resource = ask.resource;

  if was.resource is null then
    return turno.lock_create(ask);
  end if;

  if was.mode = 'shared' then
    if not turno.lock_is_takeable(was, ask.owner) then
      return turno.lock_answer('busy', was);
    end if;
    -- Waiters and releases lock the row for moments, and the last of them may not notify again: so it is tried several times.
    if not turno.lock_enter_gate(was.resource) then
      return turno.lock_answer_soon(was.resource);
    end if;
  elsif turno.lock_is_held(was.holds, was.expires_at) then
    if was.owner <> ask.owner then
      return turno.lock_answer('busy', was);
    end if;
    if ask.request <> all (was.hold_ids) then
      perform turno.lock_check_holds(was.holds);
    end if;
    -- The request is the id of the hold. The update itself checks whether it was applied before: the same request may be in
    -- progress twice, because its connection broke while it waited.
    update turno.lock t
    set holds      = t.holds + 1,
        expires_at = greatest(t.expires_at, least(clock_timestamp() + ask.ttl, t.max_until)),
        hold_ids   = t.hold_ids || ask.request
    where t.resource = ask.resource
      and t.token = was.token
      and turno.lock_is_held(t.holds, t.expires_at)
      and ask.request <> all (t.hold_ids)
    returning * into now;
    if found then
      return turno.lock_answer('reentered', now);
    end if;
    select * into now
    from turno.lock t
    where t.resource = ask.resource
      and t.token = was.token
      and turno.lock_is_held(t.holds, t.expires_at)
      and ask.request = any (t.hold_ids);
    if found then
      return turno.lock_answer(case when now.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, now);
    end if;
    -- It expired or was broken at this moment: continue as for any other caller.
  end if;

  select * into was
  from turno.lock t
  where t.resource = ask.resource
    and turno.lock_is_takeable(t, ask.owner)
  for update skip locked;
  if not found then
    select * into was
    from turno.lock t
    where t.resource = ask.resource;
    return turno.lock_answer('busy', was);
  end if;
  if was.mode = 'shared' and not turno.lock_all_over(was.resource) then
    return turno.lock_answer('busy', was);
  end if;

  perform turno.lock_close(was, 'taken_over');
  update turno.lock t
  set token       = greatest(t.token + 1, turno.next_token()),
      mode        = 'exclusive',
      owner       = ask.owner,
      holds       = 1,
      acquired_at = clock_timestamp(),
      expires_at  = clock_timestamp() + least(ask.ttl, ask.max_hold),
      min_until   = clock_timestamp() + ask.min_hold,
      max_until   = clock_timestamp() + ask.max_hold,
      "user"      = ask."user",
      service     = ask.service,
      description = ask.description,
      host        = ask.host,
      pid         = ask.pid,
      hold_ids    = array[ask.request],
      requests    = '{}'
  where t.resource = ask.resource
  returning * into now;
  return turno.lock_answer('acquired', now);
end
$$;

-- A resource that was never seen, or was purged. An insert would wait for another's, perhaps for the
-- whole of a long transaction; the advisory lock makes that an answer as well.
create or replace function turno.lock_create(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  now turno.lock;
begin
  if not turno.lock_may_create(ask.resource) then
    now.resource := ask.resource;
    return turno.lock_answer('busy', now);
  end if;
  insert into turno.lock as t (
    resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
    "user", service, description, host, pid, hold_ids)
  values (
    ask.resource, turno.next_token(), 'exclusive', ask.owner, 1,
    clock_timestamp(),
    clock_timestamp() + least(ask.ttl, ask.max_hold),
    clock_timestamp() + ask.min_hold,
    clock_timestamp() + ask.max_hold,
    ask."user", ask.service, ask.description, ask.host, ask.pid, array[ask.request])
  on conflict do nothing
  returning * into now;
  if not found then
    select * into now
    from turno.lock t
    where t.resource = ask.resource;
    return turno.lock_answer('busy', now);
  end if;
  -- Read after the insert: if that had to wait for a purge of this very row, the floor is up by now.
  now.token := turno.lock_above_floor(now.resource, now.token);
  return turno.lock_answer('acquired', now);
end
$$;
