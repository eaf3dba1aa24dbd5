-- Purpose: lengthen a lease. It never inserts, never steals and never shortens. One that comes after
--          the expiry, but before anybody else took the lock, is accepted (the token is still the
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

  -- A stale token is told so without a touch of the row: a zombie must not disturb the holder.
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
  -- The gate is told if it is free just now; whoever would take over looks at the holds themselves.
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
