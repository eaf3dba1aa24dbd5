-- Shared locks and permits, waiting in SQL, several resources at once.

-- Purpose: shared locks and permits; the rule is lock_is_shareable. Mode shared without permits means 10000 permits.
-- Index:   lock_pkey, lock_hold_pkey.
--
-- The row of table lock is the gate: it is read first (a busy call writes nothing), then locked, so that counting and entering
-- are one step. Sharers wait for each other there, for the length of one insert; if the gate stays locked, because of the long
-- transaction of another application, the outcome is busy. A guarded hold cannot be locked, and so it cannot be ended: it
-- counts, even after its expiry.
--
-- The count and the expiry in the gate can be out of date, so the holds decide (lock_is_shared, lock_is_shareable): a release
-- does not wait for the gate, and of holders that release at the same time one writes the gate and still counts the others.

create or replace function turno.lock_share(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  l     turno.lock;
  h     turno.lock_hold;
  most  integer := coalesce(ask.permits, 10000);
begin
  perform turno.lock_check(ask);
  ask.request := coalesce(ask.request, gen_random_uuid());

  select * into l
  from turno.lock t
  where t.resource = ask.resource;

  if l.resource is null then
    -- The gate, without holds: its token is only the base of the holds' tokens.
    if not turno.lock_may_create(ask.resource) then
      l.resource := ask.resource;
      return turno.lock_answer('busy', l);
    end if;
    insert into turno.lock as t (resource, token, mode, owner, holds, acquired_at, expires_at)
    values (ask.resource, turno.next_token(), 'shared', '', 0, clock_timestamp(), 'epoch')
    on conflict do nothing
    returning * into l;
    if found then
      perform turno.lock_above_floor(l.resource, l.token);
    end if;
  elsif l.mode = 'exclusive' and l.owner = ask.owner and turno.lock_is_taken(l) then
    return turno.lock_take(ask);
  elsif not turno.lock_is_shareable(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;

  if not turno.lock_enter_gate(ask.resource) then
    return turno.lock_answer_soon(ask.resource);
  end if;
  select * into l
  from turno.lock t
  where t.resource = ask.resource;
  if not turno.lock_is_shareable(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;
  if l.mode = 'exclusive' then
    perform turno.lock_close(l, 'taken_over');
  end if;

  select * into h
  from turno.lock_hold o
  where o.resource = ask.resource
    and o.owner = ask.owner
    and turno.lock_is_held(o.holds, o.expires_at);
  if found and ask.request <> all (h.hold_ids) then
    perform turno.lock_check_holds(h.holds);
    -- A release of it may be in progress: a hold that it has ended is not entered again.
    update turno.lock_hold o
    set holds      = o.holds + 1,
        expires_at = greatest(o.expires_at, least(clock_timestamp() + ask.ttl, o.max_until)),
        hold_ids   = o.hold_ids || ask.request
    where o.resource = h.resource
      and o.token = h.token
      and turno.lock_is_held(o.holds, o.expires_at)
    returning * into h;
  end if;
  if found then
    perform turno.lock_gate(ask.resource);
    return row(case when h.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, h.resource, h.owner, h.token,
               h.holds, h.acquired_at, h.expires_at, h.expires_at - clock_timestamp(),
               h."user", h.service, h.description)::turno.lock_outcome;
  end if;

  perform turno.lock_close_holds(ask.resource, 'expired');
  if (select count(*) from turno.lock_hold o where o.resource = ask.resource) >= most then
    perform turno.lock_gate(ask.resource);
    -- A guard keeps an expired hold, and does not notify when it ends.
    return turno.lock_answer_soon(ask.resource);
  end if;
  update turno.lock t
  set token = greatest(t.token + 1, turno.next_token()),
      mode  = 'shared'
  where t.resource = ask.resource
  returning * into l;
  insert into turno.lock_hold as o (
    resource, token, owner, holds, acquired_at, expires_at, min_until, max_until,
    "user", service, description, host, pid, hold_ids)
  values (
    ask.resource, l.token, ask.owner, 1, clock_timestamp(),
    clock_timestamp() + least(ask.ttl, ask.max_hold),
    clock_timestamp() + ask.min_hold,
    clock_timestamp() + ask.max_hold,
    ask."user", ask.service, ask.description, ask.host, ask.pid, array[ask.request])
  returning * into h;
  perform turno.lock_gate(ask.resource);
  return row('acquired', h.resource, h.owner, h.token, h.holds, h.acquired_at, h.expires_at,
             h.expires_at - clock_timestamp(), h."user", h.service, h.description)::turno.lock_outcome;
end
$$;

-- Whether an owner may share a lock: it has no exclusive hold and fewer than "most" shared ones, its min_hold has passed, and no
-- waiter is ahead. An owner that shares it already may enter again. The parts of the rule are in lock_acquire.sql.
create or replace function turno.lock_is_shareable(l turno.lock, owner text, most integer) returns boolean
language plpgsql
as $$
declare
  live integer;
  mine boolean;
begin
  if l.mode = 'exclusive' and turno.lock_is_taken(l) then
    return false;
  end if;
  select count(*), coalesce(bool_or(h.owner = lock_is_shareable.owner), false) into live, mine
  from turno.lock_hold h
  where h.resource = l.resource
    and turno.lock_is_held(h.holds, h.expires_at);
  if mine then
    return true;
  end if;
  return live < most
    and (live > 0 or not turno.lock_is_resting(l))
    and turno.lock_is_next(l, lock_is_shareable.owner);
end
$$;

-- "Busy" to one who would share: the hold that ends first is the one to wait for. A waiter in line ahead may be in the way
-- instead, and its place may lapse sooner, without a notification.
create or replace function turno.lock_answer_shared(l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  h    turno.lock_hold;
  look timestamptz;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = l.resource
    and o.expires_at > clock_timestamp()
    and o.holds > 0
    and l.mode = 'shared'
  order by o.expires_at
  limit 1;
  if not found then
    return turno.lock_answer('busy', l);
  end if;
  look := h.expires_at;
  if l.fifo_until > clock_timestamp() then
    select least(look, w.alive_until) into look
    from turno.lock_waiter w
    where w.resource = l.resource
      and w.fifo
      and w.alive_until > clock_timestamp()
    order by w.ticket
    limit 1;
    look := coalesce(look, h.expires_at);
  end if;
  return row('busy', h.resource, h.owner, null, h.holds, h.acquired_at, h.expires_at,
             look - clock_timestamp(), h."user", h.service, h.description)::turno.lock_outcome;
end
$$;

-- The row of the gate with the values of its present holds.
create or replace function turno.lock_gate_live(l turno.lock) returns turno.lock
language plpgsql
as $$
declare
  live record;
begin
  select
    count(*)::integer as holds,
    max(h.expires_at) as expires_at,
    min(h.acquired_at) as acquired_at,
    (array_agg(h."user" order by h.expires_at desc))[1] as "user",
    (array_agg(h.service order by h.expires_at desc))[1] as service,
    (array_agg(h.description order by h.expires_at desc))[1] as description
  into live
  from turno.lock_hold h
  where h.resource = l.resource
    and turno.lock_is_held(h.holds, h.expires_at);
  l.holds := live.holds;
  if live.holds > 0 then
    l.expires_at := live.expires_at;
    l.acquired_at := live.acquired_at;
    l."user" := live."user";
    l.service := live.service;
    l.description := live.description;
  end if;
  return l;
end
$$;

-- Locks the gate, if that can be had in a few milliseconds.
create or replace function turno.lock_enter_gate(resource text) returns boolean
language plpgsql
as $$
begin
  for tried in 1..8 loop
    perform 1
    from turno.lock t
    where t.resource = lock_enter_gate.resource
    for update skip locked;
    if found then
      return true;
    end if;
    perform pg_sleep(0.001 * tried * (0.5 + random()));
  end loop;
  return false;
end
$$;

-- Closes the expired holds, except those that a guard keeps; returns their number. A hold that was released while the gate was
-- locked has its history row already.
create or replace function turno.lock_close_holds(resource text, event text) returns bigint
language plpgsql
as $$
declare
  closed bigint;
begin
  with ended as (
    delete from turno.lock_hold h
    where h.resource = lock_close_holds.resource
      and h.token in (
        select o.token
        from turno.lock_hold o
        where o.resource = lock_close_holds.resource
          and not turno.lock_is_held(o.holds, o.expires_at)
        for update skip locked)
    returning h.*)
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
  select
    lock_close_holds.event, e.resource, e.token, 'shared', e.owner, e."user", e.service, e.description,
    e.host, e.pid, e.acquired_at, e.expires_at
  from ended e
  where e.holds > 0;
  get diagnostics closed = row_count;
  return closed;
end
$$;

-- Whether every hold has ended and none has a guard. The gate's expiry can be out of date: a renewal that found the gate locked
-- has not changed it.
create or replace function turno.lock_all_over(resource text) returns boolean
language plpgsql
as $$
declare
  over bigint;
begin
  select count(*) into over
  from (
    select
    from turno.lock_hold o
    where o.resource = lock_all_over.resource
      and not turno.lock_is_held(o.holds, o.expires_at)
    for update skip locked) o;
  return over = (select count(*) from turno.lock_hold o where o.resource = lock_all_over.resource);
end
$$;

-- Updates the gate from its holds: their number and the latest expiry.
create or replace function turno.lock_gate(resource text) returns void
language sql
as $$
  update turno.lock t
  set holds      = s.holds,
      expires_at = s.expires_at,
      owner      = '',
      min_until  = greatest(t.min_until, s.min_until),
      max_until  = null,
      "user"     = s."user",
      service    = s.service,
      description = s.description,
      acquired_at = coalesce(s.acquired_at, t.acquired_at),
      hold_ids   = '{}',
      requests   = '{}'
  from (
    select
      count(*)::integer as holds,
      coalesce(max(h.expires_at), 'epoch') as expires_at,
      max(h.min_until) as min_until,
      min(h.acquired_at) as acquired_at,
      (array_agg(h."user" order by h.expires_at desc))[1] as "user",
      (array_agg(h.service order by h.expires_at desc))[1] as service,
      (array_agg(h.description order by h.expires_at desc))[1] as description
    from turno.lock_hold h
    where h.resource = lock_gate.resource
      and h.holds > 0) s
  where t.resource = lock_gate.resource
$$;

-- Purpose: waiting, in SQL. A library waits outside the database, where it can be woken; this is for
--          callers that have SQL only. It holds the caller's connection and snapshot, so it is bounded;
--          and it signs in nowhere, because a row that it wrote would be locked until it is done.
-- Index:   lock_pkey, lock_waiter_pkey.

create or replace function turno.lock_acquire_wait(
  ask  turno.lock_ask,
  wait interval
) returns turno.lock_outcome
language plpgsql
as $$
declare
  got   turno.lock_outcome;
  until timestamptz := clock_timestamp() + wait;
  nap   double precision := 0.02;
begin
  if wait < '0' or wait > '5 minutes' then
    raise exception 'wait is %, and must be between 0 and 5 minutes', wait
      using errcode = 'invalid_parameter_value', hint = 'Wait less in SQL, and call again.';
  end if;
  loop
    if ask.mode = 'exclusive' and ask.permits is null then
      got := turno.lock_take(ask);
    else
      got := turno.lock_share(ask);
    end if;
    exit when got.outcome <> 'busy' or wait is null or clock_timestamp() >= until;
    perform pg_sleep(least(nap, extract(epoch from until - clock_timestamp())));
    nap := least(nap * 1.5, 0.25) * (0.75 + random() / 2);
  end loop;
  return got;
end
$$;

-- Until when a waiter that signs in now counts: ten seconds longer than the holding that it waits for, because it looks again
-- when that ends.
create or replace function turno.lock_waits_until(resource text) returns timestamptz
language sql
stable
as $$
  select greatest(
    clock_timestamp(),
    (select
       case when t.holds > 0 then greatest(t.expires_at, t.min_until) else t.min_until end
     from turno.lock t
     where t.resource = lock_waits_until.resource),
    -- A renewal that found the lock row locked has not changed it.
    (select max(h.expires_at)
     from turno.lock_hold h
     where h.resource = lock_waits_until.resource
       and h.holds > 0)) + '10 seconds'
$$;

-- Signs a waiter in, or says that it is still there: it counts until ten seconds after the end of the holding that it waits
-- for, or after its release (lock_shorten_waiters). The marks on the lock row spare all others a look at the list. False: the row could not be
-- marked just now.
create or replace function turno.lock_wait(
  resource    text,
  owner       text,
  fifo        boolean default false,
  "user"      text    default null,
  service     text    default null,
  description text    default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  alive timestamptz := turno.lock_waits_until(lock_wait.resource);
  fresh timestamptz := case
    when alive > clock_timestamp() + '10 seconds' then alive
    else clock_timestamp() + '6 seconds'
  end;
begin
  perform turno.check_name('resource', lock_wait.resource, 255);
  perform turno.check_name('owner', lock_wait.owner, 255);
  -- A waiter whose registration expired has lost its place.
  delete from turno.lock_waiter w
  where w.resource = lock_wait.resource
    and w.owner = lock_wait.owner
    and w.alive_until <= clock_timestamp();
  insert into turno.lock_waiter as w (
    resource, owner, fifo, since, alive_until, "user", service, description)
  values (
    lock_wait.resource, lock_wait.owner, lock_wait.fifo, clock_timestamp(), alive,
    lock_wait."user", lock_wait.service, lock_wait.description)
  on conflict (resource, owner) do update
  set alive_until = excluded.alive_until,
      fifo        = excluded.fifo;
  -- Another waiter's mark will do as well, while it is fresh.
  if exists (
    select
    from turno.lock t
    where t.resource = lock_wait.resource
      and t.waited_until >= fresh
      and (not lock_wait.fifo or t.fifo_until >= fresh)) then
    return true;
  end if;
  -- A row that another transaction is changing is not marked: to wait for its lock could take as long as that transaction.
  update turno.lock t
  set waited_until = greatest(t.waited_until, alive),
      fifo_until   = case when lock_wait.fifo then greatest(t.fifo_until, alive) else t.fifo_until end
  where t.resource = (
    select k.resource
    from turno.lock k
    where k.resource = lock_wait.resource
    for no key update skip locked);
  return found;
end
$$;

comment on function turno.lock_wait is
  'Signs a waiter in until ten seconds after the end of the holding that it waits for (false: try again at once, the row was just changing): a release then notifies channel turno_lock, and with fifo no later waiter is served first. Call again when the holding has changed, and lock_leave afterwards.';

-- Signs a waiter out.
create or replace function turno.lock_leave(resource text, owner text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  gone turno.lock_waiter;
  l    turno.lock;
begin
  delete from turno.lock_waiter w
  where w.resource = lock_leave.resource
    and w.owner = lock_leave.owner
  returning * into gone;
  -- The waiter behind may be the next now; it would otherwise sleep on. Among shared holds there may be room beside those
  -- that are held, and the gate does not tell.
  if gone.fifo then
    select * into l
    from turno.lock t
    where t.resource = lock_leave.resource;
    if l.holds = 0 or l.mode = 'shared' then
      perform turno.lock_notify(l);
    end if;
  end if;
end
$$;

comment on function turno.lock_leave is 'Signs a waiter out.';

-- Purpose: take several resources, all or none, in sorted order, so that two callers who want the same
--          ones cannot wait for each other. Busy on one undoes the others and names that one.
-- Index:   lock_pkey.

create or replace function turno.lock_acquire_all(
  resources   text[],
  owner       text     default null,
  ttl         interval default '30 seconds',
  "user"      text     default null,
  service     text     default null,
  description text     default null,
  min_hold    interval default null,
  max_hold    interval default null,
  host        text     default null,
  pid         integer  default null,
  request     uuid     default null,
  max_ttl     interval default '24 hours'
) returns setof turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  sorted text[];
  name   text;
  l      turno.lock;
  got    turno.lock_outcome;
  all_of turno.lock_outcome[] := '{}';
begin
  sorted := array(select distinct r collate "C" from unnest(resources) r order by 1);
  if cardinality(sorted) not between 1 and 100 then
    raise exception 'resources has % names, and must have 1 to 100', cardinality(sorted)
      using errcode = 'invalid_parameter_value', hint = 'Lock a common parent, such as PRESTAMO instead of each PRESTAMO/n.';
  end if;
  owner := coalesce(owner, gen_random_uuid()::text);

  -- A busy call writes nothing: all are checked before one is changed.
  foreach name in array sorted loop
    select * into l
    from turno.lock t
    where t.resource = name;
    continue when l.mode = 'exclusive' and l.owner = owner and turno.lock_is_taken(l);
    if not turno.lock_is_takeable(l, owner) then
      return next turno.lock_answer('busy', l);
      return;
    end if;
  end loop;

  begin
    foreach name in array sorted loop
      got := turno.lock_acquire(
        resource => name, owner => owner, ttl => ttl, "user" => "user", service => service,
        description => description, min_hold => min_hold, max_hold => max_hold, host => host,
        pid => pid, request => request, max_ttl => max_ttl);
      if got.outcome = 'busy' then
        raise exception 'busy' using errcode = 'TN409';
      end if;
      all_of := all_of || got;
    end loop;
  exception when sqlstate 'TN409' then
    return next got;
    return;
  end;
  return query select * from unnest(all_of);
end
$$;

comment on function turno.lock_acquire_all is
  'Takes several resources, all or none, in sorted order: one row for each, or a single row with outcome busy.';
