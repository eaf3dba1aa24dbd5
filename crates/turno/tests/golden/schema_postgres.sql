begin;

-- Purpose: the list of migrations that were applied. Runs before any of them.
-- Index:   migration_pkey.

create schema if not exists turno;

create table if not exists turno.migration (
  version    integer     primary key,
  name       text        not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- Migration 0001_lock

-- Locks: one row a resource, so that taking a free lock changes exactly one row.
--
-- Only the primary key is indexed, and half of each page is left free: every acquire, renew and
-- release is then a heap-only update. An index on any column that they change would undo that.

create table turno.lock (
  resource    text        collate "C" primary key,
  token       bigint      not null,          -- the last token granted; never goes back
  mode        text        not null,          -- exclusive: the holder is in this row; shared: in lock_hold
  owner       text        not null,
  holds       integer     not null,          -- 0: free
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,                   -- nobody may take it before this, even when released
  max_until   timestamptz,                   -- no renewal reaches past this
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}', -- one for each hold: the request that took it
  requests    uuid[]      not null default '{}', -- the last releases that named no hold
  waited_until timestamptz,                  -- somebody waits until then: a release must call
  fifo_until  timestamptz                    -- somebody waits in line until then: look there first
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row a shared hold. lock.expires_at is then the latest of its holds, so that an exclusive
-- acquire still has to look at one row only.
create table turno.lock_hold (
  resource    text        collate "C" not null,
  token       bigint      not null,
  owner       text        not null,
  holds       integer     not null,
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,
  max_until   timestamptz,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}',
  requests    uuid[]      not null default '{}',
  primary key (resource, token)
) with (fillfactor = 70);

-- Who waits for what. Unlogged: a crash forgets the queue, and the waiters, who keep
-- signing in while they wait, form it again.
create unlogged table turno.lock_waiter (
  resource    text        collate "C" not null,
  owner       text        not null,
  ticket      bigint      generated always as identity,
  fifo        boolean     not null,
  since       timestamptz not null,
  alive_until timestamptz not null,          -- a waiter that died stops counting then
  "user"      text,
  service     text,
  description text,
  primary key (resource, owner)
) with (fillfactor = 70);

-- One row a holding, written when it ends, and one a late arrival.
create table turno.lock_history (
  id          bigint      generated always as identity primary key,
  at          timestamptz not null default clock_timestamp(),
  event       text        not null,
  resource    text        collate "C" not null,
  token       bigint      not null,
  mode        text        not null,
  owner       text,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  actor       text,                          -- the person who broke it
  reason      text,
  request     uuid                           -- what ended it, should it be asked again
);

create index lock_history_resource on turno.lock_history (resource, id);

-- The highest token of any purged row: a resource that comes back starts above it.
create table turno.lock_floor (
  only_row    boolean     primary key default true check (only_row),
  token       bigint      not null
);

insert into turno.lock_floor (token) values (0);

-- What lock_acquire was asked for, handed whole to the functions that decide.
create type turno.lock_ask as (
  resource    text,
  owner       text,
  ttl         interval,
  "user"      text,
  service     text,
  description text,
  mode        text,
  permits     integer,
  min_hold    interval,
  max_hold    interval,
  host        text,
  pid         integer,
  request     uuid,
  max_ttl     interval
);

create type turno.lock_outcome as (
  outcome     text,                          -- acquired, reentered, busy
  resource    text,
  owner       text,                          -- of the lease, or of who has it
  token       bigint,                        -- of the lease; null when busy
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,                      -- of the lease, or of who has it, on this clock
  "user"      text,
  service     text,
  description text
);

create type turno.lock_renewal as (
  outcome     text,                          -- renewed, lost
  expires_at  timestamptz,
  remaining   interval
);

create type turno.lock_ending as (
  outcome     text,                          -- released, lost
  holds       integer                        -- holds that the owner still has
);

create type turno.lock_info as (
  resource    text,
  locked      boolean,
  mode        text,
  owner       text,
  token       bigint,
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  waiters     bigint
);

create type turno.swept as (
  expired     bigint,                        -- holdings closed because their time was up
  purged      bigint,                        -- rows of resources long unused
  waiters     bigint,
  history     bigint
);

insert into turno.migration (version, name) values (1, '0001_lock');

-- Function file lock_token

-- Purpose: where fencing tokens come from.
-- Index:   lock_pkey.

-- A token follows the clock, in microseconds, and is one more than the last whenever the clock has
-- not moved on (or has moved back). So a database restored from a backup still grants tokens above
-- those it has forgotten, with nobody having to remember to tell it.
create or replace function turno.lock_tick() returns bigint
language sql
volatile
as $$
  select (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$$;

-- Lifts a new row's token above that of every row ever purged.
create or replace function turno.lock_above_floor(resource text, token bigint) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  floor bigint;
begin
  select f.token into floor
  from turno.lock_floor f;
  if floor < lock_above_floor.token then
    return lock_above_floor.token;
  end if;
  update turno.lock t
  set token = floor + 1
  where t.resource = lock_above_floor.resource;
  return floor + 1;
end
$$;

-- Function file lock_check

-- Purpose: refuse what no lock may have, naming the field and the remedy. Nothing is stored then.
-- Index:   none.

create or replace function turno.check_name(field text, value text, longest integer) returns void
language plpgsql
immutable
as $$
begin
  if value is null or value = '' then
    raise exception '% is empty', field
      using errcode = 'invalid_parameter_value', hint = format('Give %s 1 to %s bytes of text.', field, longest);
  end if;
  if octet_length(value) > longest then
    raise exception '% has % bytes, and % is the most', field, octet_length(value), longest
      using errcode = 'invalid_parameter_value', hint = 'Shorten it, or use a hash of it.';
  end if;
  if value ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '% has a control character', field
      using errcode = 'invalid_parameter_value', hint = 'Remove line breaks, tabs and other control characters.';
  end if;
end
$$;

create or replace function turno.lock_check(ask turno.lock_ask) returns void
language plpgsql
as $$
begin
  perform turno.check_name('resource', ask.resource, 255);
  perform turno.check_name('owner', ask.owner, 255);
  if ask."user" is not null then perform turno.check_name('user', ask."user", 255); end if;
  if ask.service is not null then perform turno.check_name('service', ask.service, 255); end if;
  if ask.description is not null then perform turno.check_name('description', ask.description, 1000); end if;
  if ask.host is not null then perform turno.check_name('host', ask.host, 255); end if;
  if ask.ttl is null or ask.ttl < '1 millisecond' then
    raise exception 'ttl is %, and must be at least 1 ms', coalesce(ask.ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two renewals, such as 30 seconds.';
  end if;
  if ask.max_ttl is null or ask.ttl > ask.max_ttl then
    raise exception 'ttl is %, and % is the most', ask.ttl, coalesce(ask.max_ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter lease and renew it, or raise max_ttl.';
  end if;
  if ask.min_hold < '0' or ask.min_hold > ask.ttl then
    raise exception 'min_hold is %, and must be between 0 and the ttl (%)', ask.min_hold, ask.ttl
      using errcode = 'invalid_parameter_value', hint = 'Raise the ttl or lower min_hold.';
  end if;
  if ask.max_hold < '1 millisecond' or ask.max_hold < ask.min_hold then
    raise exception 'max_hold is %, and must be above 0 and not below min_hold', ask.max_hold
      using errcode = 'invalid_parameter_value', hint = 'Raise max_hold, or leave it out.';
  end if;
  if ask.mode is null or ask.mode not in ('exclusive', 'shared') then
    raise exception 'mode is %, and must be exclusive or shared', coalesce(quote_literal(ask.mode), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave mode out for an exclusive lock.';
  end if;
  if ask.permits not between 1 and 10000 then
    raise exception 'permits is %, and must be between 1 and 10000', ask.permits
      using errcode = 'invalid_parameter_value', hint = 'Leave permits out for an exclusive lock, or use mode shared for any number.';
  end if;
end
$$;

-- Function file lock_rules

-- Purpose: the small rules that the lock functions share. None of them is for callers.
-- Index:   lock_waiter_pkey, lock_hold_pkey, lock_history_resource.

-- An answer about a lock row. The token is the holder's alone: whoever is told "busy" does not get it.
create or replace function turno.lock_answer(outcome text, l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  held_until timestamptz := case when l.holds > 0 then l.expires_at else l.min_until end;
begin
  if outcome <> 'busy' then
    return row(outcome, l.resource, l.owner, l.token, l.holds, l.acquired_at, l.expires_at,
               l.expires_at - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  if held_until > clock_timestamp() then
    return row(outcome, l.resource, l.owner, null, l.holds, l.acquired_at, held_until,
               held_until - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  -- Free, but others are in line, or somebody is taking it this very moment.
  return row(outcome, l.resource, null, null, 0, null, null, '0'::interval, null, null, null)::turno.lock_outcome;
end
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

-- Tells the waiters of a resource to look again, if there are any. A notification costs every commit
-- of the database a little, so it is not sent for nobody.
create or replace function turno.lock_call(l turno.lock) returns void
language plpgsql
as $$
begin
  if l.waited_until > clock_timestamp() then
    perform pg_notify('turno_lock', l.resource);
  end if;
end
$$;

-- Function file lock_holders

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
  and t.expires_at > clock_timestamp()
  and (t.mode = 'exclusive' or h.expires_at > clock_timestamp());

-- Function file lock_acquire

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

  if seen.holds > 0 and seen.remaining > '0' and seen.owner <> lock_acquire.owner then
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

  if was.holds > 0 and was.expires_at > clock_timestamp() then
    if was.owner <> ask.owner or was.mode <> 'exclusive' then
      return turno.lock_answer('busy', was);
    end if;
    -- Beside an open guard of its own it would have to wait; among others it must not.
    if current_setting('turno.batch', true) = 'on' then
      perform 1
      from turno.lock t
      where t.resource = ask.resource
      for no key update skip locked;
      if not found then
        return row('later', ask.resource, null, null, null, null, null, null, null, null, null)::turno.lock_outcome;
      end if;
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
    and (t.holds = 0 or t.expires_at <= clock_timestamp())
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
    return turno.lock_answer_shared(was);
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

-- Function file lock_share

-- Purpose: the rule of shared holds and permits: one more may enter while no live exclusive holder is
--          there, fewer than `permits` live holds are, and nobody who asked for FIFO stands ahead.
--          Mode shared without permits means as many as the bound allows.
-- Index:   lock_pkey, lock_hold_pkey.
--
-- The lock row is the gate: it is read first (losing writes nothing), then locked, so that counting
-- and entering are one step. Readers wait for each other there, for the length of one insert; a gate
-- that stays locked, because of a stranger's long transaction, is an answer (busy). A guarded hold
-- cannot be locked, and so not be ended: it counts as there, even when its time is up.

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
    -- The gate itself, free: its token is only the base of the holds' tokens.
    if not turno.lock_may_create(ask.resource) then
      l.resource := ask.resource;
      return turno.lock_answer('busy', l);
    end if;
    insert into turno.lock as t (resource, token, mode, owner, holds, acquired_at, expires_at)
    values (ask.resource, turno.lock_tick(), 'shared', '', 0, clock_timestamp(), 'epoch')
    on conflict do nothing
    returning * into l;
    if found then
      perform turno.lock_above_floor(l.resource, l.token);
    end if;
  elsif l.holds > 0 and l.expires_at > clock_timestamp() and l.mode = 'exclusive' and l.owner = ask.owner then
    return turno.lock_take(ask);
  elsif not turno.lock_may_share(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;

  if not turno.lock_enter_gate(ask.resource) then
    return turno.lock_answer_shared(l);
  end if;
  select * into l
  from turno.lock t
  where t.resource = ask.resource;
  if not turno.lock_may_share(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;
  if l.mode = 'exclusive' then
    perform turno.lock_close(l, 'taken_over');
  end if;

  select * into h
  from turno.lock_hold o
  where o.resource = ask.resource
    and o.owner = ask.owner
    and o.holds > 0
    and o.expires_at > clock_timestamp();
  if found then
    if ask.request <> all (h.hold_ids) then
      update turno.lock_hold o
      set holds      = o.holds + 1,
          expires_at = greatest(o.expires_at, least(clock_timestamp() + ask.ttl, o.max_until)),
          hold_ids   = o.hold_ids || ask.request
      where o.resource = h.resource
        and o.token = h.token
      returning * into h;
    end if;
    perform turno.lock_gate(ask.resource);
    return row(case when h.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, h.resource, h.owner, h.token,
               h.holds, h.acquired_at, h.expires_at, h.expires_at - clock_timestamp(),
               h."user", h.service, h.description)::turno.lock_outcome;
  end if;

  perform turno.lock_close_holds(ask.resource, 'expired');
  if (select count(*) from turno.lock_hold o where o.resource = ask.resource) >= most then
    perform turno.lock_gate(ask.resource);
    return turno.lock_answer_shared(l);
  end if;
  update turno.lock t
  set token = greatest(t.token + 1, turno.lock_tick()),
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

-- The rule itself, as a look that writes nothing.
create or replace function turno.lock_may_share(l turno.lock, owner text, most integer) returns boolean
language plpgsql
as $$
declare
  live integer;
  mine boolean;
begin
  if l.mode = 'exclusive' and l.holds > 0 and l.expires_at > clock_timestamp() then
    return false;
  end if;
  select count(*), coalesce(bool_or(h.owner = lock_may_share.owner), false) into live, mine
  from turno.lock_hold h
  where h.resource = l.resource
    and h.holds > 0
    and h.expires_at > clock_timestamp();
  if mine then
    return true;
  end if;
  return live < most
    and (live > 0 or l.min_until is null or l.min_until <= clock_timestamp())
    and turno.lock_is_next(l, lock_may_share.owner);
end
$$;

-- "Busy" among shared holds: the one that ends first is the one to wait for.
create or replace function turno.lock_answer_shared(l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  h turno.lock_hold;
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
  return row('busy', h.resource, h.owner, null, h.holds, h.acquired_at, h.expires_at,
             h.expires_at - clock_timestamp(), h."user", h.service, h.description)::turno.lock_outcome;
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

-- Closes the holds whose time is up, but for those that a guard keeps; says how many there were. One that
-- was given back while the gate was locked has its history row already.
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
          and (o.expires_at <= clock_timestamp() or o.holds = 0)
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

-- Is every hold over, with nobody's guard on it? The gate's expiry is a hint only: a renewal that found
-- the gate locked has not told it.
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
      and (o.expires_at <= clock_timestamp() or o.holds = 0)
    for update skip locked) o;
  return over = (select count(*) from turno.lock_hold o where o.resource = lock_all_over.resource);
end
$$;

-- Makes the lock row tell what its holds tell: how many, and until when.
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

-- Function file lock_acquire_wait

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

-- Signs a waiter in, or says that it is still there: it counts for ten seconds from now. The marks on
-- the lock row spare everybody else a look at the list. False: the row could not be marked just now.
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
  alive timestamptz := clock_timestamp() + '10 seconds';
  fresh timestamptz := clock_timestamp() + '6 seconds';
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
      and t.waited_until > fresh
      and (not lock_wait.fifo or t.fifo_until > fresh)) then
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
  'Signs a waiter in for ten seconds (false: try again at once, the row was just changing): a release then notifies channel turno_lock, and with fifo nobody who came later is served first. Call again while waiting, and lock_leave afterwards.';

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
  -- Whoever stood behind may be the next now; it would otherwise sleep on.
  if gone.fifo then
    select * into l
    from turno.lock t
    where t.resource = lock_leave.resource;
    if l.holds = 0 then
      perform turno.lock_call(l);
    end if;
  end if;
end
$$;

comment on function turno.lock_leave is 'Signs a waiter out.';

-- Function file lock_acquire_all

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

  -- Losing writes nothing: look at all of them before touching one.
  foreach name in array sorted loop
    select * into l
    from turno.lock t
    where t.resource = name;
    continue when l.holds > 0 and l.expires_at > clock_timestamp() and l.owner = owner and l.mode = 'exclusive';
    if (l.holds > 0 and l.expires_at > clock_timestamp())
       or l.min_until > clock_timestamp()
       or not turno.lock_is_next(l, owner) then
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

-- Function file lock_renew

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
  if not coalesce(lock_renew.ttl between '1 millisecond' and lock_renew.max_ttl, false) then
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

-- Function file lock_release

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
  -- Given back here and now; it leaves the gate's count when the gate is free, at the latest with the
  -- next one who enters.
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
    delete from turno.lock_hold o
    where o.resource = h.resource
      and o.holds = 0;
    perform turno.lock_gate(h.resource);
    perform turno.lock_call(l);
  end if;
  return row('released', 0)::turno.lock_ending;
end
$$;

-- Function file lock_batch

-- Purpose: what arrived together, done together: one round trip, one commit and a statement or two for many
--          callers of one process. Each has an outcome of its own; place says whose, counted from one.
-- Index:   lock_pkey; other plans are ruled out, because an unanalysed table would invite them.
--
-- The usual ones are done as a set; whatever is left over is done one by one. No caller may have to wait
-- for another's row lock: rows are locked with `skip locked`, and what would have to wait (a re-entry or a
-- release beside an open guard) or is shared is answered "later", and is asked again alone.

create or replace function turno.lock_acquire_batch(
  resources    text[],
  owners       text[],
  ttls         interval[],
  users        text[],
  services     text[],
  descriptions text[],
  hosts        text[],
  pids         integer[],
  requests     uuid[]
) returns table (place bigint, answer turno.lock_outcome)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set turno.batch = 'on'
as $$
declare
  done boolean[] := array_fill(false, array[cardinality(resources)]);
  told record;
begin
  -- Free ones, the first caller of each; plain arguments only, as in lock_acquire.
  for told in
    with asked as (
      select distinct on (a.resource) a.*
      from unnest(resources, owners, ttls, users, services, descriptions, hosts, pids, requests)
        with ordinality a(resource, owner, ttl, "user", service, description, host, pid, request, place)
      where a.ttl >= '1 millisecond'
        and a.request is not null
        and turno.lock_is_plain(a.owner, a."user", a.service, a.description, a.host)
      order by a.resource, a.place),
    free as materialized (
      select a.*
      from asked a
      join turno.lock k on k.resource = a.resource
      where turno.lock_is_free(k)
      for update of k skip locked)
    update turno.lock t
    set token       = greatest(t.token + 1, turno.lock_tick()),
        mode        = 'exclusive',
        owner       = f.owner,
        holds       = 1,
        acquired_at = clock_timestamp(),
        expires_at  = clock_timestamp() + f.ttl,
        min_until   = null,
        max_until   = null,
        "user"      = f."user",
        service     = f.service,
        description = f.description,
        host        = f.host,
        pid         = f.pid,
        hold_ids    = array[f.request],
        requests    = '{}'
    from free f
    where t.resource = f.resource
    returning f.place, row(
      'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
      t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome as answer
  loop
    done[told.place] := true;
    place := told.place;
    answer := told.answer;
    return next;
  end loop;

  -- Held ones: the others are told by whom.
  if not (true = all (done)) then
    for told in
      select a.place, row(
        'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
        t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome as answer
      from unnest(resources, owners) with ordinality a(resource, owner, place)
      join turno.lock t on t.resource = a.resource
      where t.holds > 0
        and t.expires_at > clock_timestamp()
        and t.owner <> a.owner
    loop
      done[told.place] := true;
      place := told.place;
      answer := told.answer;
      return next;
    end loop;
  end if;

  for i in 1..cardinality(resources) loop
    continue when done[i];
    place := i;
    answer := turno.lock_acquire(
      resource => resources[i], owner => owners[i], ttl => ttls[i], "user" => users[i],
      service => services[i], description => descriptions[i], host => hosts[i], pid => pids[i],
      request => requests[i], max_ttl => greatest(ttls[i], '24 hours'));
    return next;
  end loop;
end
$$;

comment on function turno.lock_acquire_batch is
  'Many exclusive acquires at once, each with an answer of its own; outcome later: ask that one alone.';

create or replace function turno.lock_release_batch(
  resources text[],
  tokens    bigint[],
  holds     uuid[],
  requests  uuid[]
) returns table (place bigint, answer turno.lock_ending)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  done boolean[] := array_fill(false, array[cardinality(lock_release_batch.resources)]);
  over record;
begin
  -- The last hold of a lease: the usual release.
  for over in
    with asked as (
      select distinct on (a.resource) a.*
      from unnest(
        lock_release_batch.resources, lock_release_batch.tokens, lock_release_batch.holds,
        lock_release_batch.requests) with ordinality a(resource, token, hold, request, place)
      order by a.resource, a.place),
    last_hold as materialized (
      select a.*
      from asked a
      join turno.lock k on k.resource = a.resource
      where k.token = a.token
        and k.mode = 'exclusive'
        and k.holds = 1
        and (a.hold = any (k.hold_ids) or (a.hold is null and a.request <> all (k.requests)))
      for no key update of k skip locked),
    freed as (
      update turno.lock t
      set holds    = 0,
          hold_ids = '{}'
      from last_hold l
      where t.resource = l.resource
      returning t.*, l.place, coalesce(l.hold, l.request) as request),
    history as (
      insert into turno.lock_history (
        event, resource, token, mode, owner, "user", service, description, host, pid,
        acquired_at, expires_at, reason, request)
      select
        'released', f.resource, f.token, f.mode, f.owner, f."user", f.service, f.description, f.host, f.pid,
        f.acquired_at, f.expires_at, case when f.expires_at <= clock_timestamp() then 'after its expiry' end,
        f.request
      from freed f)
    select f.place, f.resource, f.waited_until
    from freed f
  loop
    done[over.place] := true;
    place := over.place;
    answer := row('released', 0)::turno.lock_ending;
    if over.waited_until > clock_timestamp() then
      perform pg_notify('turno_lock', over.resource);
    end if;
    return next;
  end loop;

  for i in 1..cardinality(lock_release_batch.resources) loop
    continue when done[i];
    place := i;
    perform 1
    from turno.lock t
    where t.resource = lock_release_batch.resources[i]
      and t.mode = 'exclusive'
    for no key update skip locked;
    if found then
      answer := turno.lock_release(
        lock_release_batch.resources[i], lock_release_batch.tokens[i], lock_release_batch.holds[i],
        lock_release_batch.requests[i]);
    else
      answer := row('later', null)::turno.lock_ending;
    end if;
    return next;
  end loop;
end
$$;

comment on function turno.lock_release_batch is
  'Many releases at once, each with an answer of its own; outcome later: ask that one alone.';

-- Function file lock_guard

-- Purpose: fencing, enforced: inside the caller's transaction, as its last statement. It fails if the
--          token is stale, and otherwise keeps everybody from taking the lock over until that
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
  -- A shared hold: its own row is kept, and nobody may end it then. The gate stays free for the others.
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
  'In the caller''s transaction, as its last statement: raises TN410 if the token is stale; otherwise nobody can take the lock over until that transaction ends.';

-- Function file lock_break

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

-- Function file lock_status

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

-- Function file lock_history

-- Purpose: the audit trail, newest first: one entry a holding that has ended, one a late arrival.
-- Index:   lock_history_resource, or lock_history_pkey when no resource is named.

create or replace function turno.lock_history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default ''
) returns setof turno.lock_history
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if lock_history.resource is not null then
    return query
      select h.*
      from turno.lock_history h
      where h.resource = lock_history.resource
        and h.id < coalesce(lock_history.before, 9223372036854775807)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  else
    return query
      select h.*
      from turno.lock_history h
      where h.id < coalesce(lock_history.before, 9223372036854775807)
        and starts_with(h.resource, lock_history.prefix)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  end if;
end
$$;

comment on function turno.lock_history is
  'The audit trail, newest first, of one resource or of all that begin with a prefix; before is the last id of the page before.';

-- Function file sweep

-- Purpose: tidiness, never correctness: closes holdings whose time is up, forgets resources long
--          unused (raising the token floor first), dead waiters and old history. Bounded by "batch" a
--          kind; call it again until it answers zeros.
-- Index:   lock_pkey (scanned whole: there is no index on the expiry, on purpose), lock_history_pkey.

create or replace function turno.sweep(
  purge_after  interval default '1 day',
  keep_history interval default '90 days',
  batch        integer  default 1000
) returns turno.swept
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  l    turno.lock;
  done turno.swept;
  high bigint;
begin
  if purge_after is null or purge_after < '0' or keep_history is null or keep_history < '0' or not coalesce(batch between 1 and 100000, false) then
    raise exception 'purge_after (%), keep_history (%) and batch (%) must not be negative, and batch is 1 to 100000', purge_after, keep_history, batch
      using errcode = 'invalid_parameter_value', hint = 'Leave them out for the defaults.';
  end if;
  done := row(0, 0, 0, 0)::turno.swept;

  for l in
    select *
    from turno.lock t
    where t.holds > 0
      and t.expires_at <= clock_timestamp()
    limit batch
    for update skip locked
  loop
    done.expired := done.expired + turno.lock_close(l, 'expired');
    if l.mode = 'shared' then
      -- Not simply free: a hold that a guard keeps is still there.
      perform turno.lock_gate(l.resource);
    else
      update turno.lock t
      set holds = 0
      where t.resource = l.resource;
    end if;
    perform turno.lock_call(l);
  end loop;

  -- Rows that nobody has wanted for long. Their highest token becomes the floor in the same
  -- transaction, so that no resource can come back below it.
  with gone as (
    delete from turno.lock t
    where t.resource in (
      select k.resource
      from turno.lock k
      where k.holds = 0
        and k.acquired_at < clock_timestamp() - purge_after
        and (k.min_until is null or k.min_until < clock_timestamp())
        and (k.waited_until is null or k.waited_until < clock_timestamp())
      limit batch
      for update skip locked)
    returning t.token)
  select count(*), max(gone.token) into done.purged, high
  from gone;
  if high is not null then
    update turno.lock_floor f
    set token = high
    where f.token < high;
  end if;

  with gone as (
    delete from turno.lock_waiter w
    where w.alive_until < clock_timestamp()
    returning 1)
  select count(*) into done.waiters
  from gone;

  with gone as (
    delete from turno.lock_history h
    where h.id in (
      select o.id
      from turno.lock_history o
      order by o.id
      limit batch)
      and h.at < clock_timestamp() - keep_history
    returning 1)
  select count(*) into done.history
  from gone;

  return done;
end
$$;

comment on function turno.sweep is
  'Closes expired holdings, forgets long unused resources, dead waiters and old history; at most batch of each.';

-- Function file schema_version

-- Purpose: the number of the last migration, for callers that may not read the table.
-- Index:   migration_pkey.

create or replace function turno.schema_version() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select max(m.version)
  from turno.migration m
$$;

comment on function turno.schema_version is 'The number of the last migration that was applied.';

-- Function file grants

-- Purpose: least privilege. Role turno_app may call the public functions and touch nothing else; the
--          functions run as their owner. A cluster where roles cannot be created does without it.
-- Index:   none.

do $$
begin
  create role turno_app nologin;
exception
  when duplicate_object or unique_violation then null;
  when insufficient_privilege then
    raise notice 'role turno_app was not created: ask an administrator for "create role turno_app nologin", then run turno migrate again';
end
$$;

revoke all on schema turno from public;
revoke all on all tables in schema turno from public;
revoke all on all sequences in schema turno from public;
revoke all on all functions in schema turno from public;

do $$
declare
  f regprocedure;
begin
  if not exists (select from pg_roles where rolname = 'turno_app') then
    return;
  end if;
  grant usage on schema turno to turno_app;
  -- The public functions are the ones that run as their owner.
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and p.prosecdef
  loop
    execute format('grant execute on function %s to turno_app', f);
  end loop;
end
$$;

commit;
