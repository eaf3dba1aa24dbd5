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
      perform turno.lock_call(l);
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
    perform turno.lock_call(l);
  else
    -- Whether a waiter has just marked the row cannot be known here, and it may not look again for a long time.
    perform turno.wake('turno_lock', h.resource);
    perform turno.lock_line_soon(h.resource);
  end if;
  return row('released', 0)::turno.lock_ending;
end
$$;
