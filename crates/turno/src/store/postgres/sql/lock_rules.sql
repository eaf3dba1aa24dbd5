-- Purpose: the small rules that the lock functions share. None of them is for callers.
-- Index:   lock_waiter_pkey, lock_hold_pkey, lock_history_resource.

-- An answer about a lock row. The token is the holder's alone: whoever is told "busy" does not get it.
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

-- The rule that the usual winner meets: free, rested, and nobody in line. (lock_take has the whole of it.)
-- The planner puts it in place, so that it costs no call.
create or replace function turno.lock_is_free(l turno.lock) returns boolean
language sql
volatile
as $$
  select l.holds = 0
    and (l.min_until is null or l.min_until <= clock_timestamp())
    and (l.fifo_until is null or l.fifo_until <= clock_timestamp())
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

-- Is this owner the next in line? Cheap while nobody queues: the answer is in the row.
create or replace function turno.lock_is_next(l turno.lock, owner text) returns boolean
language plpgsql
as $$
begin
  if l.fifo_until is null or l.fifo_until <= clock_timestamp() then
    return true;
  end if;
  return coalesce(
    (select w.owner = lock_is_next.owner
     from turno.lock_waiter w
     where w.resource = l.resource
       and w.fifo
       and w.alive_until > clock_timestamp()
     order by w.ticket
     limit 1),
    true);
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
create or replace function turno.lock_line_soon(resource text) returns void
language sql
as $$
  update turno.lock_waiter w
  set alive_until = clock_timestamp() + '10 seconds'
  where w.resource = lock_line_soon.resource
    and w.owner in (
      select o.owner
      from turno.lock_waiter o
      where o.resource = lock_line_soon.resource
        and o.fifo
        and o.alive_until > clock_timestamp() + '10 seconds'
      -- One that is just signing in is alive.
      for update skip locked)
$$;

-- Tells the waiters of a resource to look again, if there are any. A notification costs every commit
-- of the database a little, so it is not sent for nobody.
create or replace function turno.lock_call(l turno.lock) returns void
language plpgsql
as $$
begin
  if l.waited_until > clock_timestamp() then
    perform turno.wake('turno_lock', l.resource);
  end if;
  if l.fifo_until > clock_timestamp() + '10 seconds' then
    perform turno.lock_line_soon(l.resource);
  end if;
end
$$;
