-- History, access tokens and sweep.

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

-- Purpose: records operator actions in the history, with user and reason, in the transaction of the action. Internal.
-- Index:   none.

create or replace function turno.operator_action_check("user" text, reason text) returns void
language plpgsql
immutable
as $$
begin
  if "user" is not null then
    perform turno.check_name('user', "user", 255);
  end if;
  if reason is not null then
    perform turno.check_name('reason', reason, 1000);
  end if;
end
$$;

-- What changed nothing leaves nothing. The number is of those that locks have, so that one id orders them all.
create or replace function turno.operator_action_record(
  part     text,
  event    text,
  resource text,
  many     bigint,
  actor    text,
  reason   text
) returns void
language sql
as $$
  insert into turno.operator_action (id, at, part, event, resource, count, actor, reason)
  select
    nextval('turno.lock_history_id_seq'), clock_timestamp(), operator_action_record.part, operator_action_record.event,
    operator_action_record.resource, operator_action_record.many, operator_action_record.actor, operator_action_record.reason
  where operator_action_record.many > 0
$$;

-- Purpose: the history, newest first: how leases ended, and operator actions.
-- Index:   those of lock_history; operator_action_resource, or operator_action_pkey when no resource is named.

create or replace function turno.history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default '',
  part     text    default null
) returns setof turno.history_entry
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  page integer := least(greatest(history."limit", 1), 1000);
  last bigint  := coalesce(history.before, 9223372036854775807);
begin
  if history.part is not null and history.part not in ('lock', 'inbox', 'outbox', 'once', 'setting') then
    raise exception 'part is %, and must be lock, inbox, outbox, once or setting', quote_literal(history.part)
      using errcode = 'invalid_parameter_value', hint = 'Leave part out for all of them.';
  end if;
  return query
    with locks as (
      select
        h.id, h.at, 'lock'::text, h.event, h.resource::text, null::bigint, h.token, h.mode, h.owner, h."user", h.service,
        h.description, h.host, h.pid, h.acquired_at, h.expires_at, h.actor, h.reason
      from turno.lock_history(history.resource, last, page, history.prefix) h
      where history.part is null
         or history.part = 'lock'),
    named as (
      select d.*
      from turno.operator_action d
      where d.resource = history.resource
        and d.id < last
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    begun as (
      select d.*
      from turno.operator_action d
      where history.resource is null
        and d.id < last
        and starts_with(d.resource, history.prefix)
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    operator_actions as (
      select
        d.id, d.at, d.part, d.event, d.resource::text, d.count, null::bigint, null::text, null::text, null::text, null::text,
        null::text, null::text, null::integer, null::timestamptz, null::timestamptz, d.actor, d.reason
      from (select * from named union all select * from begun) d)
    select *
    from (select * from locks union all select * from operator_actions) e
    order by 1 desc
    limit page;
end
$$;

comment on function turno.history is
  'The history, newest first: how leases ended, and what operators did to queues, events, once keys and settings, with user and reason. Of one resource, of all that begin with a prefix, or of one part: lock, inbox, outbox, once, setting. The outbox has no name: its resource is empty. before is the last id of the page before.';

-- Purpose: access tokens. Those who serve may look one up; to make, to list and to end them is for the owner of the
--          schema: these run with the rights of their caller, and the roles of applications and operators have none.
-- Index:   access_pkey, access_created.

-- What an access token is at this moment.
create or replace function turno.access_now(a turno.access) returns turno.access_view
language sql
volatile
as $$
  select row(
    a.id, a.name, a.role, a.prefix,
    case
      when a.revoked_at is not null then 'revoked'
      when a.expires_at <= clock_timestamp() then 'expired'
      else 'live'
    end,
    a.created_at, a.expires_at, a.revoked_at)::turno.access_view
$$;

create or replace function turno.access_create(
  id         text,
  hash       bytea,
  name       text,
  role       text,
  prefix     text     default '',
  expires_in interval default null
) returns turno.access_view
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  a turno.access;
begin
  perform turno.check_name('id', access_create.id, 255);
  perform turno.check_name('name', access_create.name, 255);
  if access_create.role is null or access_create.role not in ('read', 'operate', 'admin') then
    raise exception 'role is %, and must be read, operate or admin', coalesce(quote_literal(access_create.role), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Choose the least that is enough.';
  end if;
  if octet_length(access_create.hash) is distinct from 32 then
    raise exception 'hash must be the 32 bytes of a SHA-256'
      using errcode = 'invalid_parameter_value', hint = 'Use turno token create.';
  end if;
  insert into turno.access (id, hash, name, role, prefix, created_at, expires_at)
  values (
    access_create.id, access_create.hash, access_create.name, access_create.role, coalesce(access_create.prefix, ''),
    clock_timestamp(), clock_timestamp() + access_create.expires_in)
  -- Asked again, because the answer was lost.
  on conflict (id) do update
  set name = excluded.name
  where access.hash = excluded.hash
  returning * into strict a;
  return turno.access_now(a);
end
$$;

comment on function turno.access_create is
  'Keeps a new access token: its public id, the SHA-256 of its secret, what it allows. For the owner of the schema.';

create or replace function turno.access_list("limit" integer default 1000) returns setof turno.access_view
language sql
set search_path = pg_catalog, pg_temp
as $$
  select v.*
  from turno.access a
  cross join lateral turno.access_now(a) v
  order by a.created_at desc, a.id
  limit access_list."limit"
$$;

comment on function turno.access_list is 'The access tokens, newest first, those that are over too. For the owner of the schema.';

create or replace function turno.access_revoke(id text) returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
  with ended as (
    update turno.access a
    set revoked_at = clock_timestamp()
    where a.id = access_revoke.id
      and a.revoked_at is null
    returning 1)
  select exists (select from ended)
$$;

comment on function turno.access_revoke is
  'Ends an access token for good; false if there is none, or it has ended already. For the owner of the schema.';

create or replace function turno.access_find(id text, out view turno.access_view, out hash bytea) returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select turno.access_now(a), a.hash
  from turno.access a
  where a.id = access_find.id
$$;

comment on function turno.access_find is 'An access token by its id, with the hash that its secret must have.';

create or replace function turno.access_any() returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from turno.access)
$$;

comment on function turno.access_any is 'Whether an access token was ever made, revoked ones included.';

-- Purpose: tidiness, never correctness: closes holdings whose time is up, forgets resources long
--          unused (raising the token floor first), dead waiters and old history. Bounded by "batch" a
--          kind; call it again while a count is as large as that.
-- Index:   inbox_done_at, inbox_key_done, inbox_failed_oldest, inbox_request_at; once_sweep; outbox_sent_pkey, outbox_archive_at, seen_at; lock_pkey (scanned whole: there is no index on the expiry, on purpose), lock_history_pkey, operator_action_pkey.
--
-- A sweep that finds nothing reads next to nothing, however much is kept: times are compared with a variable, because an index is of
-- no use for a clock that is read anew for each row.

-- The inbox's part: completions, keys and answered requests that are too old, and counters.
create or replace function turno.inbox_sweep(keep_completed interval, batch integer) returns bigint
language plpgsql
as $$
declare
  before   timestamptz := clock_timestamp() - keep_completed;
  answered timestamptz := clock_timestamp() - interval '10 minutes';
  got      bigint;
  many     bigint;
begin
  perform turno.inbox_compact_counters();
  delete from turno.inbox_done d
  where d.ctid = any (array(
    select o.at
    from turno.inbox_queue q
    cross join lateral (
      select t.ctid as at
      from turno.inbox_done t
      where t.queue_id = q.id
        and t.at < before
      order by t.at
      limit batch) o
    limit batch));
  get diagnostics many = row_count;
  delete from turno.inbox_key k
  where k.ctid = any (array(
    select t.ctid
    from turno.inbox_key t
    where t.done_at < before
    order by t.done_at
    limit batch));
  get diagnostics got = row_count;
  many := many + got;
  delete from turno.inbox_request r
  where r.ctid = any (array(
    select t.ctid
    from turno.inbox_request t
    where t.at < answered
    order by t.at
    limit batch));
  get diagnostics got = row_count;
  return many + got;
end
$$;

-- Failed items that are too old, queue by queue, each with one entry in the history; none if keep_failed is null. Not the
-- outbox's dead events: they wait for a person, and events behind them may be parked.
create or replace function turno.inbox_sweep_failed(keep_failed interval, batch integer) returns bigint
language plpgsql
as $$
declare
  before timestamptz := clock_timestamp() - keep_failed;
  q      record;
  got    bigint;
  many   bigint := 0;
begin
  if keep_failed is null then
    return 0;
  end if;
  for q in
    select t.id, t.name
    from turno.inbox_queue t
    where not starts_with(t.name, '$')
  loop
    got := turno.inbox_forget_failed(
      q.id,
      array(
        select f.id
        from turno.inbox_failed f
        where f.queue_priority / 4 = q.id
          and f.failed_at < before
        order by f.failed_at
        limit batch - many),
      batch);
    perform turno.operator_action_record(
      'inbox', 'discarded', q.name, got, null, 'swept: failed longer ago than keep_failed');
    many := many + got;
    exit when many >= batch;
  end loop;
  return many;
end
$$;

-- The outbox's part: what has left it, what is archived, and what consumers have seen.
create or replace function turno.outbox_sweep(
  keep_completed interval,
  keep_archive   interval,
  keep_seen      interval,
  batch          integer,
  out sent       bigint,
  out archived   bigint,
  out seen       bigint
)
language plpgsql
as $$
declare
  before          timestamptz := clock_timestamp() - keep_completed;
  archived_before timestamptz := clock_timestamp() - keep_archive;
  seen_before     timestamptz := clock_timestamp() - keep_seen;
begin
  -- Numbered in the order of time, or nearly so: the first ones are the oldest.
  delete from turno.outbox_sent s
  where s.ctid = any (array(
    select o.place
    from (
      select t.ctid as place, t.at
      from turno.outbox_sent t
      order by t.n
      limit batch) o
    where o.at < before));
  get diagnostics sent = row_count;
  delete from turno.outbox_archive a
  where a.ctid = any (array(
    select t.ctid
    from turno.outbox_archive t
    where t.dispatched_at < archived_before
    order by t.dispatched_at
    limit batch));
  get diagnostics archived = row_count;
  delete from turno.seen s
  where s.ctid = any (array(
    select t.ctid
    from turno.seen t
    where t.at < seen_before
    order by t.at
    limit batch));
  get diagnostics seen = row_count;
end
$$;

-- Notes that a sweep took place. Sweepers that run together do not wait for each other here.
create or replace function turno.sweep_note() returns void
language sql
as $$
  update turno.sweep_last s
  set at = clock_timestamp(), "by" = session_user
  where s.ctid in (
    select t.ctid
    from turno.sweep_last t
    for update skip locked)
$$;

create or replace function turno.sweep_last(out at timestamptz, out "by" text) returns record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.at, s."by"
  from turno.sweep_last s
$$;

comment on function turno.sweep_last is
  'When the store was last swept, and by which role; the time of the migration and null before the first sweep.';

-- Deletes once keys whose answers have expired. A key that is still valid is checked again when it may have expired.
create or replace function turno.once_sweep(batch integer) returns bigint
language plpgsql
as $$
declare
  now_at timestamptz := clock_timestamp();
  many   bigint;
  high   bigint;
begin
  with due as materialized (
    select t.key
    from turno.once t
    where t.sweep_at < now_at
    order by t.sweep_at
    limit batch
    for update skip locked),
  gone as (
    delete from turno.once o
    using due d
    where o.key = d.key
      and turno.once_state(o) = 'gone'
    returning o.token),
  later as (
    update turno.once o
    set sweep_at = o.until
      + case o.state when 'running' then greatest(o.ttl, turno.once_unknown_for()) else '0' end
    from due d
    where o.key = d.key
      and turno.once_state(o) <> 'gone')
  select count(*), max(g.token) into many, high
  from gone g;
  update turno.lock_floor f
  set token = high
  where f.token < high;
  return many;
end
$$;

-- Old history, of locks and of operators. Numbered in the order of time, or nearly so: the first ones are the oldest.
create or replace function turno.history_sweep(keep_history interval, batch integer) returns bigint
language plpgsql
as $$
declare
  before timestamptz := clock_timestamp() - keep_history;
  got    bigint;
  many   bigint;
begin
  delete from turno.lock_history h
  where h.ctid = any (array(
    select o.place
    from (
      select t.ctid as place, t.at
      from turno.lock_history t
      order by t.id
      limit batch) o
    where o.at < before));
  get diagnostics many = row_count;
  delete from turno.operator_action d
  where d.ctid = any (array(
    select o.place
    from (
      select t.ctid as place, t.at
      from turno.operator_action t
      order by t.id
      limit batch) o
    where o.at < before));
  get diagnostics got = row_count;
  return many + got;
end
$$;

-- An error if a role that does not own the schema would erase what is younger than the minimum: the history says who did
-- what, the archive what was published, records of completed work recognise a duplicate, and failed items are for a person to
-- look at.
create or replace function turno.sweep_check_ages(
  keep_history   interval,
  keep_completed interval,
  keep_archive   interval,
  keep_seen      interval,
  keep_failed    interval
) returns void
language plpgsql
stable
as $$
begin
  if least(keep_history, keep_archive) >= '1 day' and least(keep_completed, keep_seen, keep_failed) >= '1 hour' then
    return;
  end if;
  if pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'turno'), 'usage') then
    return;
  end if;
  raise exception 'only the owner of schema turno may sweep history and archive younger than a day, and records of completed work and failed items younger than an hour'
    using errcode = 'insufficient_privilege',
      hint = 'Raise keep_history (' || keep_history || '), keep_archive (' || keep_archive || '), keep_completed ('
        || keep_completed || '), keep_seen (' || keep_seen || ') or keep_failed (' || coalesce(keep_failed::text, 'null')
        || ').';
end
$$;

create or replace function turno.sweep(
  purge_after    interval default '1 day',
  keep_history   interval default '90 days',
  batch          integer  default 1000,
  keep_completed interval default '7 days',
  keep_archive   interval default '365 days',
  keep_seen      interval default '30 days',
  keep_failed    interval default null
) returns turno.swept
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  l    turno.lock;
  done turno.swept;
  high bigint;
  gone_events record;
begin
  if purge_after is null or purge_after < '0' or keep_history is null or keep_history < '0'
    or keep_completed is null or keep_completed < '0' or keep_archive is null or keep_archive < '0'
    or keep_seen is null or keep_seen < '0' or keep_failed < '0' or not coalesce(batch between 1 and 100000, false) then
    raise exception 'purge_after (%), keep_history (%), keep_completed (%), keep_archive (%), keep_seen (%), keep_failed (%) and batch (%) must not be negative, and batch is 1 to 100000',
      purge_after, keep_history, keep_completed, keep_archive, keep_seen, keep_failed, batch
      using errcode = 'invalid_parameter_value', hint = 'Leave them out for the defaults.';
  end if;
  perform turno.sweep_check_ages(keep_history, keep_completed, keep_archive, keep_seen, keep_failed);
  done := row(0, 0, 0, 0, 0, 0, 0, 0, 0)::turno.swept;

  for l in
    select *
    from turno.lock t
    where t.holds > 0
      and not turno.lock_is_held(t.holds, t.expires_at)
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
    perform turno.lock_notify(l);
  end loop;

  -- Rows that were not used for long. Their highest token becomes the floor in the same transaction, so that no resource
  -- comes back with a lower token.
  with gone as (
    delete from turno.lock t
    where t.resource in (
      select k.resource
      from turno.lock k
      where k.holds = 0
        and k.acquired_at < clock_timestamp() - purge_after
        and not turno.lock_is_resting(k)
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

  delete from turno.inbox_listener m
  where m.until < clock_timestamp() - interval '1 day';

  done.history := turno.history_sweep(keep_history, batch);

  select * into gone_events
  from turno.outbox_sweep(keep_completed, keep_archive, keep_seen, batch);
  done.completed := turno.inbox_sweep(keep_completed, batch) + gone_events.sent;
  done.archived := gone_events.archived;
  done.seen := gone_events.seen;
  done.once := turno.once_sweep(batch);
  done.failed := turno.inbox_sweep_failed(keep_failed, batch);
  perform turno.sweep_note();
  return done;
end
$$;

comment on function turno.sweep is
  'Closes expired holdings, forgets long unused resources, dead waiters, old history, records of completed items and dispatched events, old archived events, what consumers have seen, answers whose time is up and, if keep_failed is given, old failed items; at most batch of each. Call it again while a count is as large as batch.';
