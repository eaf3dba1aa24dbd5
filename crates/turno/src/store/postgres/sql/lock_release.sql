-- Renewal, release, guard, break and status of locks.

-- Purpose: lengthen a lease. It never inserts, never steals and never shortens. A renewal after
--          the expiry, but before a takeover, is accepted (the token is still the
--          newest) and recorded as renewed_late; max_hold is never passed.
-- Index:   lock_pkey, lock_hold_pkey.

create or replace function turno.lock_renew(
  resource text,
  token    bigint,
  ttl      interval default '30 seconds',
  max_ttl  interval default '24 hours'
) returns turno.lock_renewal
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  got turno.lock_renewal;
  l   turno.lock;
begin
  if not coalesce(
      lock_renew.ttl between '1 millisecond' and lock_renew.max_ttl and lock_renew.ttl <= '24 hours', false) then
    perform turno.lock_check(
      row(lock_renew.resource, 'renew', lock_renew.ttl, null, null, null, 'exclusive', null, null, null,
          null, null, null, lock_renew.max_ttl)::turno.lock_ask);
  end if;

  update turno.lock t
  set expires_at = greatest(t.expires_at, least(clock_timestamp() + lock_renew.ttl, t.max_until))
  where t.resource = lock_renew.resource
    and t.token = lock_renew.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and t.expires_at > clock_timestamp()
  returning 'renewed', t.expires_at, t.expires_at - clock_timestamp() into got;
  if found then
    return got;
  end if;

  -- A stale token does not lock the row: a late holder must not disturb the present one.
  select * into l
  from turno.lock t
  where t.resource = lock_renew.resource;
  if l.mode is distinct from 'shared' and l.token is distinct from lock_renew.token then
    perform turno.lock_late(lock_renew.resource, lock_renew.token, 'renew');
    return row('lost', null, null)::turno.lock_renewal;
  end if;
  if l.mode = 'shared' then
    return turno.lock_renew_shared(l, lock_renew.token, lock_renew.ttl);
  end if;
  -- Expired: the row is locked, and the rest is decided in peace.
  select * into l
  from turno.lock t
  where t.resource = lock_renew.resource
  for update;
  if l.token = lock_renew.token and l.holds > 0 and (l.max_until is null or l.max_until > clock_timestamp()) then
    if l.expires_at <= clock_timestamp() then
      insert into turno.lock_history (
        event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
      values (
        'renewed_late', l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description, l.host,
        l.pid, l.acquired_at, l.expires_at);
    end if;
    update turno.lock t
    set expires_at = greatest(t.expires_at, least(clock_timestamp() + lock_renew.ttl, t.max_until))
    where t.resource = lock_renew.resource
    returning 'renewed', t.expires_at, t.expires_at - clock_timestamp() into got;
    return got;
  end if;
  perform turno.lock_late(lock_renew.resource, lock_renew.token, 'renew');
  return row('lost', null, null)::turno.lock_renewal;
end
$$;

comment on function turno.lock_renew is
  'Lengthens a lease to ttl from now: renewed, or lost if the token is no longer the holder''s.';

create or replace function turno.lock_renew_shared(
  l     turno.lock,
  token bigint,
  ttl   interval
) returns turno.lock_renewal
language plpgsql
as $$
#variable_conflict use_column
declare
  h turno.lock_hold;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = l.resource
    and o.token = lock_renew_shared.token
    and o.holds > 0
    and (o.max_until is null or o.max_until > clock_timestamp())
  for update;
  if not found then
    perform turno.lock_late(l.resource, lock_renew_shared.token, 'renew');
    return row('lost', null, null)::turno.lock_renewal;
  end if;
  if h.expires_at <= clock_timestamp() then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
    values (
      'renewed_late', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host,
      h.pid, h.acquired_at, h.expires_at);
  end if;
  update turno.lock_hold o
  set expires_at = greatest(o.expires_at, least(clock_timestamp() + lock_renew_shared.ttl, o.max_until))
  where o.resource = h.resource
    and o.token = h.token
  returning * into h;
  -- The gate is updated if it is not locked; a takeover reads the holds themselves.
  update turno.lock t
  set expires_at = greatest(t.expires_at, h.expires_at)
  where t.resource = (
    select k.resource
    from turno.lock k
    where k.resource = h.resource
      and k.mode = 'shared'
    for update skip locked);
  return row('renewed', h.expires_at, h.expires_at - clock_timestamp())::turno.lock_renewal;
end
$$;

-- Purpose: give back one hold; the last one ends the lease and writes its history row.
-- Index:   lock_pkey, lock_hold_pkey.
--
-- A caller that knows which hold it gives back names it, by the request that took it: then a release
-- that is sent again can never give back another's. Otherwise the newest goes, and the request itself
-- is remembered for a while.

create or replace function turno.lock_release(
  resource text,
  token    bigint,
  hold     uuid default null,
  request  uuid default null
) returns turno.lock_ending
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  l turno.lock;
begin
  update turno.lock t
  set holds    = t.holds - 1,
      hold_ids = case
        when lock_release.hold is null then t.hold_ids[:t.holds - 1]
        else array_remove(t.hold_ids, lock_release.hold)
      end,
      requests = case
        when lock_release.hold is null then turno.lock_remember(t.requests, lock_release.request)
        else t.requests
      end
  where t.resource = lock_release.resource
    and t.token = lock_release.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and case
      when lock_release.hold is not null then lock_release.hold = any (t.hold_ids)
      else lock_release.request is null or lock_release.request <> all (t.requests)
    end
  returning * into l;

  if not found then
    select * into l
    from turno.lock t
    where t.resource = lock_release.resource;
    if l.mode = 'shared' then
      return turno.lock_release_shared(
        lock_release.resource, lock_release.token, lock_release.hold, lock_release.request);
    end if;
    -- The same release again, because its answer was lost: it has been done.
    if l.token = lock_release.token and l.holds > 0 then
      return row('released', l.holds)::turno.lock_ending;
    end if;
    if turno.lock_was_ended(lock_release.resource, lock_release.token, lock_release.request, lock_release.hold) then
      return row('released', 0)::turno.lock_ending;
    end if;
    perform turno.lock_late(lock_release.resource, lock_release.token, 'release');
    return row('lost', 0)::turno.lock_ending;
  end if;

  if l.holds = 0 then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid,
      acquired_at, expires_at, reason, request)
    values (
      'released', l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description, l.host, l.pid,
      l.acquired_at, l.expires_at, case when l.expires_at <= clock_timestamp() then 'after its expiry' end,
      lock_release.request);
    if l.waited_until is not null then
      perform turno.lock_notify(l);
    end if;
  end if;
  return row('released', l.holds)::turno.lock_ending;
end
$$;

comment on function turno.lock_release is
  'Gives back one hold: released (holds tells how many the owner still has), or lost if the token is no longer the holder''s.';

create or replace function turno.lock_release_shared(
  resource text,
  token    bigint,
  hold     uuid,
  request  uuid
) returns turno.lock_ending
language plpgsql
as $$
#variable_conflict use_column
declare
  l turno.lock;
  h turno.lock_hold;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = lock_release_shared.resource
    and o.token = lock_release_shared.token
    and o.holds > 0
  for update;
  if not found then
    if turno.lock_was_ended(
        lock_release_shared.resource, lock_release_shared.token, lock_release_shared.request,
        lock_release_shared.hold) then
      return row('released', 0)::turno.lock_ending;
    end if;
    perform turno.lock_late(lock_release_shared.resource, lock_release_shared.token, 'release');
    return row('lost', 0)::turno.lock_ending;
  end if;
  if lock_release_shared.hold <> all (h.hold_ids)
     or (lock_release_shared.hold is null and lock_release_shared.request = any (h.requests)) then
    return row('released', h.holds)::turno.lock_ending;
  end if;
  if h.holds > 1 then
    update turno.lock_hold o
    set holds    = o.holds - 1,
        hold_ids = case
          when lock_release_shared.hold is null then o.hold_ids[:o.holds - 1]
          else array_remove(o.hold_ids, lock_release_shared.hold)
        end,
        requests = case
          when lock_release_shared.hold is null then turno.lock_remember(o.requests, lock_release_shared.request)
          else o.requests
        end
    where o.resource = h.resource
      and o.token = h.token
    returning * into h;
    return row('released', h.holds)::turno.lock_ending;
  end if;
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, reason, request)
  values (
    'released', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, case when h.expires_at <= clock_timestamp() then 'after its expiry' end,
    lock_release_shared.request);
  -- Given back here and now, whatever the gate says: a caller that would take the lock looks at the holds. The hold leaves
  -- the gate's count when the gate is free, at the latest with the next caller that enters.
  update turno.lock_hold o
  set holds      = 0,
      expires_at = 'epoch'
  where o.resource = h.resource
    and o.token = h.token;
  select * into l
  from turno.lock t
  where t.resource = h.resource
  for update skip locked;
  if found then
    update turno.lock t
    set min_until = greatest(t.min_until, h.min_until)
    where t.resource = h.resource;
    perform turno.lock_gate(h.resource);
    -- After the count: what is released between the two stays in the count, and a row that is in it is removed later.
    delete from turno.lock_hold o
    where o.resource = h.resource
      and o.holds = 0;
    perform turno.lock_notify(l);
  else
    -- Whether a waiter has just marked the row cannot be known here, and it may not look again for a long time.
    perform turno.wake('turno_lock', h.resource);
    perform turno.lock_shorten_waiters(h.resource);
  end if;
  return row('released', 0)::turno.lock_ending;
end
$$;

-- Purpose: fencing, enforced: inside the caller's transaction, as its last statement. It fails if the
--          token is stale, and otherwise prevents a takeover of the lock until that
--          transaction has ended, even past the expiry.
-- Index:   lock_pkey, lock_hold_pkey.
-- The row lock is shared, so that several guarded transactions of one holder do not wait for each other.

create or replace function turno.lock_guard(resource text, token bigint) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  perform 1
  from turno.lock t
  where t.resource = lock_guard.resource
    and t.token = lock_guard.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and t.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  -- A shared hold: its own row is locked, so that it cannot be ended. The gate stays unlocked for the others.
  perform 1
  from turno.lock_hold h
  where h.resource = lock_guard.resource
    and h.token = lock_guard.token
    and h.holds > 0
    and h.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  raise exception 'the lease on % with token % is lost', lock_guard.resource, lock_guard.token
    using errcode = 'TN410', hint = 'Roll back: another holder may have the lock. Acquire it again and repeat the work.';
end
$$;

comment on function turno.lock_guard is
  'In the caller''s transaction, as its last statement: raises TN410 if the token is stale; otherwise the lock cannot be taken over until that transaction ends.';

-- Purpose: a person forces a lock open, naming the token that is broken and why.
-- Index:   lock_pkey, lock_hold_pkey.

create or replace function turno.lock_break(
  resource text,
  token    bigint,
  reason   text,
  "user"   text default null,
  request  uuid default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  l turno.lock;
  h turno.lock_hold;
begin
  perform turno.check_name('reason', lock_break.reason, 1000);
  if lock_break."user" is not null then
    perform turno.check_name('user', lock_break."user", 255);
  end if;

  select * into l
  from turno.lock t
  where t.resource = lock_break.resource;
  if turno.lock_was_ended(lock_break.resource, lock_break.token, lock_break.request) then
    return 'broken';
  end if;
  if l.resource is null then
    return 'not_held';
  end if;
  select * into l
  from turno.lock t
  where t.resource = lock_break.resource
  for update;

  if l.mode = 'exclusive' then
    if l.token <> lock_break.token or l.holds = 0 then
      return 'not_held';
    end if;
    perform turno.lock_close(l, 'broken', lock_break."user", lock_break.reason, lock_break.request);
    update turno.lock t
    set holds     = 0,
        min_until = null
    where t.resource = lock_break.resource;
    perform turno.lock_notify(l);
    return 'broken';
  end if;

  delete from turno.lock_hold o
  where o.resource = lock_break.resource
    and o.token = lock_break.token
    and o.holds > 0
  returning * into h;
  if not found then
    return 'not_held';
  end if;
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, actor, reason, request)
  values (
    'broken', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, lock_break."user", lock_break.reason, lock_break.request);
  -- Broken means free now: its min_hold goes with it; lock_gate puts back that of the others.
  update turno.lock t
  set min_until = null
  where t.resource = lock_break.resource;
  perform turno.lock_gate(lock_break.resource);
  perform turno.lock_notify(l);
  return 'broken';
end
$$;

comment on function turno.lock_break is
  'Forces a lock open: broken, or not_held if the token is not the holder''s. The reason and the user go into the history.';

-- Purpose: who holds what. lock_status answers for one resource: one row a holder, or one row with
--          locked = false. lock_list answers for all that are held and begin with a prefix.
-- Index:   lock_pkey (a range of it, for the prefix), lock_hold_pkey, lock_waiter_pkey.

create or replace function turno.lock_status(resource text) returns setof turno.lock_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select * from turno.lock_holders h where h.resource = lock_status.resource;
  if not found then
    return next row(
      lock_status.resource, false, null, null, null, 0, null, null, null, null, null, null, null, null,
      (select count(*) from turno.lock_waiter w
       where w.resource = lock_status.resource and w.alive_until > clock_timestamp()))::turno.lock_info;
  end if;
end
$$;

comment on function turno.lock_status is
  'Who holds a resource: a row for each holder, or one row with locked = false.';

create or replace function turno.lock_list(
  prefix text    default '',
  after  text    default '',
  "limit" integer default 100
) returns setof turno.lock_info
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  -- A page is so many resources, each with all of its holders.
  select h.*
  from (
    select distinct o.resource
    from turno.lock_holders o
    where o.resource > after
      and o.resource >= prefix
      and starts_with(o.resource, prefix)
    order by o.resource
    limit least(greatest("limit", 1), 1000)) page
  join turno.lock_holders h on h.resource = page.resource
  order by h.resource, h.token
$$;

comment on function turno.lock_list is
  'The locks that are held now and begin with a prefix, in order; after is the last resource of the page before.';
