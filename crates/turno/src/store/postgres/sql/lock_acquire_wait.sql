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
-- for, or after its release (lock_line_soon). The marks on the lock row spare all others a look at the list. False: the row could not be
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
  -- Whoever was away for too long has lost its place in line.
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
  -- A row that somebody is just changing goes without: waiting for a row lock here could last as long
  -- as a stranger's transaction.
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
      perform turno.lock_call(l);
    end if;
  end if;
end
$$;

comment on function turno.lock_leave is 'Signs a waiter out.';
