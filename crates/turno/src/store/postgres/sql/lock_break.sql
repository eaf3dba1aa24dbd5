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

  select * into l
  from turno.lock t
  where t.resource = lock_break.resource;
  if not found then
    return 'not_held';
  end if;
  select * into l
  from turno.lock t
  where t.resource = lock_break.resource
  for update;

  if l.mode = 'exclusive' then
    if l.token = lock_break.token and l.holds = 0 and lock_break.request = any (l.requests) then
      return 'broken';
    end if;
    if l.token <> lock_break.token or l.holds = 0 then
      return 'not_held';
    end if;
    perform turno.lock_close(l, 'broken', lock_break."user", lock_break.reason);
    update turno.lock t
    set holds     = 0,
        min_until = null,
        requests  = turno.lock_remember(t.requests, lock_break.request)
    where t.resource = lock_break.resource;
    perform turno.lock_call(l);
    return 'broken';
  end if;

  delete from turno.lock_hold o
  where o.resource = lock_break.resource
    and o.token = lock_break.token
  returning * into h;
  if not found then
    return 'not_held';
  end if;
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, actor, reason)
  values (
    'broken', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, lock_break."user", lock_break.reason);
  perform turno.lock_gate(lock_break.resource);
  perform turno.lock_call(l);
  return 'broken';
end
$$;

comment on function turno.lock_break is
  'Forces a lock open: broken, or not_held if the token is not the holder''s. The reason and the user go into the history.';
