-- Purpose: take a resource: acquired, reentered or busy. Exclusive locks are decided in this file,
--          shared holds and permits in lock_share.sql, waiting in lock_acquire_wait.sql.
-- Index:   lock_pkey.
--
-- The rule: a lock may be taken when it is free or expired, its min_hold has passed, and nobody who
-- asked for FIFO stands ahead. Its own live owner enters again, with the same token.
--
-- Losing writes nothing: what may be taken is found by the condition under which it is locked, so a row
-- that may not is only read. Time is read inside that statement and never before it, because a statement
-- may wait; and `skip locked` makes a row that somebody else is just changing an answer (busy).
--
-- The row of a shared lock is the gate of its holds, and a hint: a release or a renewal that finds it locked
-- does not change it. Whether such a lock is held, and until when, is read from lock_hold.

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

  -- The usual winner: the row is there, free, with nobody in line, and the arguments are plainly good.
  if ttl between '1 millisecond' and max_ttl
     and ttl <= '24 hours'
     and min_hold is null
     and max_hold is null
     and turno.lock_is_plain(owner, "user", service, description, host) then
    update turno.lock t
    set token       = greatest(t.token + 1, turno.lock_tick()),
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
        hold_ids    = array[coalesce(request, gen_random_uuid())],
        requests    = '{}'
    where t.resource = (
      select k.resource
      from turno.lock k
      where k.resource = lock_acquire.resource
        and turno.lock_is_free(k)
      for update skip locked)
    returning
      'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
      t.expires_at - clock_timestamp(), t."user", t.service, t.description
    into got;
    if found then
      return got;
    end if;
  end if;

  -- The holder, in the shape of the answer that most losers get.
  select
    'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
    t.expires_at - clock_timestamp(), t."user", t.service, t.description
  into seen
  from turno.lock t
  where t.resource = lock_acquire.resource;

  -- The gate of shared holds has no owner, and does not decide.
  if seen.holds > 0 and seen.remaining > '0' and seen.owner not in (lock_acquire.owner, '') then
    return seen;
  end if;

  return turno.lock_take(
    row(resource, owner, ttl, "user", service, description, mode, permits, min_hold, max_hold,
        host, pid, request, max_ttl)::turno.lock_ask);
end
$$;

comment on function turno.lock_acquire is
  'Takes a resource. outcome: acquired (token is the fencing token), reentered (same owner: same token, one hold more) or busy (remaining, user, service and description tell who has it; token is null; nothing is written). wait retries for that long; mode shared or permits N let several hold it at once.';

-- The same rule, for every other case: a new resource, an expired holder, a queue, a re-entry.
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
    if turno.lock_is_shared(was.resource)
       or was.min_until > clock_timestamp()
       or not turno.lock_is_next(was, ask.owner) then
      return turno.lock_answer('busy', was);
    end if;
    -- Waiters and releases lock the gate for moments, and the last of them may notify no more: it is worth a few tries.
    if not turno.lock_enter_gate(was.resource) then
      return turno.lock_answer_soon(was.resource);
    end if;
  elsif was.holds > 0 and was.expires_at > clock_timestamp() then
    if was.owner <> ask.owner then
      return turno.lock_answer('busy', was);
    end if;
    if ask.request <> all (was.hold_ids) then
      perform turno.lock_check_holds(was.holds);
    end if;
    -- The request is the hold's name. Whether it was applied before is asked in the update itself: the
    -- same request may be under way twice, because its connection broke while it waited.
    update turno.lock t
    set holds      = t.holds + 1,
        expires_at = greatest(t.expires_at, least(clock_timestamp() + ask.ttl, t.max_until)),
        hold_ids   = t.hold_ids || ask.request
    where t.resource = ask.resource
      and t.token = was.token
      and t.holds > 0
      and t.expires_at > clock_timestamp()
      and ask.request <> all (t.hold_ids)
    returning * into now;
    if found then
      return turno.lock_answer('reentered', now);
    end if;
    select * into now
    from turno.lock t
    where t.resource = ask.resource
      and t.token = was.token
      and t.expires_at > clock_timestamp()
      and ask.request = any (t.hold_ids);
    if found then
      return turno.lock_answer(case when now.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, now);
    end if;
    -- It expired, or was broken, this very moment: go on as anybody else would.
  end if;

  select * into was
  from turno.lock t
  where t.resource = ask.resource
    and (t.holds = 0
      or t.expires_at <= clock_timestamp()
      or (t.mode = 'shared' and not turno.lock_is_shared(t.resource)))
    and (t.min_until is null or t.min_until <= clock_timestamp())
    and turno.lock_is_next(t, ask.owner)
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
  set token       = greatest(t.token + 1, turno.lock_tick()),
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
    ask.resource, turno.lock_tick(), 'exclusive', ask.owner, 1,
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
