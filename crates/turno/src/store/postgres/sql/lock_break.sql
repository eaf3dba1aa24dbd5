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
    perform turno.lock_call(l);
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
  perform turno.lock_call(l);
  return 'broken';
end
$$;

comment on function turno.lock_break is
  'Forces a lock open: broken, or not_held if the token is not the holder''s. The reason and the user go into the history.';
