-- Purpose: what a relay does: takes events, and says what became of them.
-- Index:   those of inbox_claim.sql and inbox_settle.sql; inbox_failed_group, outbox_parked_pkey.

create or replace function turno.outbox_queue() returns integer
language sql
stable
as $$
  select turno.inbox_queue_id('$outbox')
$$;

-- A blocked event keeps its place until a person decides: its time does not come.
create or replace function turno.outbox_never() returns timestamptz
language sql
immutable
as $$
  select timestamptz '9999-01-01 00:00:00+00'
$$;

-- The id of an event, from its item's key. An item that was not written by outbox_emit may have none: it is claimed with the
-- nil id, and the relay sets it aside. A failed cast would fail the claim of all others.
create or replace function turno.outbox_id(key text) returns uuid
language sql
immutable
as $$
  select case
    when key ~ '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$' then key::uuid
    else '00000000-0000-0000-0000-000000000000'::uuid
  end
$$;

-- Whether a key is parked now. Volatile, and not a subquery: a claim waits for its turn, and its own statement does not see
-- what was parked meanwhile. An event of that key would be published.
create or replace function turno.outbox_is_parked(key text) returns boolean
language plpgsql
volatile
as $$
begin
  return outbox_is_parked.key is not null
    and exists (select from turno.outbox_parked p where p.key = outbox_is_parked.key);
end
$$;

-- The token is the caller's choice: the same call repeated is answered the same. A claim that is all of its transaction
-- need not be durable (see inbox_claim_batch). With order, of each key the first one
-- only; without it, all in the order in which they were emitted.
create or replace function turno.outbox_claim(
  relay    text,
  "limit"  integer  default 50,
  lease    interval default '15 seconds',
  in_order boolean  default true,
  token    uuid     default gen_random_uuid(),
  durable  boolean  default true
) returns setof turno.outbox_claimed
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if outbox_claim."limit" is null or outbox_claim."limit" not between 1 and 1000 then
    raise exception 'limit is %, and must be between 1 and 1000', coalesce(outbox_claim."limit"::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Claim fewer at a time, and more often.';
  end if;
  return query
  select
    t.id, turno.outbox_id(t.key), t."group", t.payload, t.pushed_at, t.attempt - 1 - t.abandoned, t.abandoned,
    turno.outbox_is_parked(t."group"), t.expires_at
  from turno.inbox_claim_batch(
    '$outbox', outbox_claim.relay, outbox_claim."limit", outbox_claim.lease, outbox_claim.token, outbox_claim.durable,
    outbox_claim.in_order) t;
end
$$;

comment on function turno.outbox_claim is
  'Claims events for a relay. In order: of each key the first only, until that is settled. Each claim is settled as a whole, with outbox_settle.';

-- All of a claim at once: what was sent, what was refused, and whatever is left goes back, no attempt spent: at once, or
-- after its delay if it is deferred. Those that may have arrived are labelled when they are published again.
create or replace function turno.outbox_settle(
  token    uuid,
  sent     int8multirange,
  refused  bigint[]       default null,
  errors   text[]         default null,
  retry_ins interval[]    default null,
  dead     text[]         default null,  -- for each refused one: null, skip, block or park
  doubtful int8multirange default null,
  archive  boolean        default false,
  request  uuid           default null,
  deferred bigint[]       default null,
  delays   interval[]     default null
) returns turno.outbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  b      turno.inbox_batch;
  own    uuid := coalesce(outbox_settle.request, gen_random_uuid());
  hit    int8multirange;
  asked  bigint := turno.inbox_count(outbox_settle.sent) + coalesce(cardinality(outbox_settle.refused), 0);
  events uuid[];
  s      turno.outbox_settled := row(0, 0, 0, 0)::turno.outbox_settled;
begin
  if exists (select from unnest(outbox_settle.delays) d where d < '0' or d > '3660 days') then
    raise exception 'delays must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Give one delay for each deferred event.';
  end if;
  select * into b
  from turno.inbox_batch t
  where t.token = outbox_settle.token
  for update;
  if not found then
    -- The same call may have been answered before, and its answer lost.
    if exists (
      select from turno.inbox_done d
      where d.request = own
        and d.token = outbox_settle.token) then
      return row(
        turno.inbox_count(outbox_settle.sent), coalesce(cardinality(outbox_settle.refused), 0), 0, 0)::turno.outbox_settled;
    end if;
    return row(0, 0, 0, asked)::turno.outbox_settled;
  end if;

  hit := b.ids * outbox_settle.sent;
  if not isempty(hit) then
    select array_agg(turno.outbox_id(i.key) order by i.id) into events
    from turno.inbox_item i
    where i.ctid = any (array(select p.at from turno.inbox_places(b.lane, hit) p));
    if outbox_settle.archive then
      insert into turno.outbox_archive (id, seq, key, emitted_at, dispatched_at, relay, event)
      select turno.outbox_id(i.key), i.id, i."group", i.pushed_at, clock_timestamp(), b.worker, i.payload
      from turno.inbox_item i
      where i.ctid = any (array(select p.at from turno.inbox_places(b.lane, hit) p));
    end if;
    s.sent := (turno.inbox_complete_batch(array[b.token], array[hit], array[own])).done;
    insert into turno.outbox_sent (at, outcome, "by", ids)
    values (clock_timestamp(), 'dispatched', b.worker, events);
  end if;

  if cardinality(outbox_settle.refused) > 0 then
    insert into turno.outbox_parked (key, id, at)
    select distinct on (i."group") i."group", turno.outbox_id(i.key), clock_timestamp()
    from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
    cross join lateral (
      select *
      from turno.inbox_item t
      where t.lane = b.lane
        and t.id = u.id
      offset 0) i
    where u.dead = 'park'
      and b.ids @> u.id
      and i."group" is not null
    order by i."group", i.id
    on conflict do nothing;
    s.refused := (turno.inbox_fail_batch(
      outbox_settle.refused, array_fill(b.token, array[cardinality(outbox_settle.refused)]), outbox_settle.errors,
      outbox_settle.retry_ins, array(select coalesce(d in ('skip', 'park'), false) from unnest(outbox_settle.dead) d))).done;
    if 'block' = any (outbox_settle.dead) then
      update turno.inbox_item i
      set run_at = turno.outbox_never()
      from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
      where i.lane = b.lane
        and i.id = u.id
        and u.dead = 'block'
        and b.ids @> u.id;
    end if;
  end if;
  s.stale := asked - s.sent - s.refused;

  select * into b
  from turno.inbox_batch t
  where t.token = outbox_settle.token;
  if found then
    s.returned := turno.inbox_count(b.ids);
    update turno.inbox_item i
    set attempts  = i.attempts + turno.inbox_doubt(i.abandoned),
        abandoned = i.abandoned + turno.inbox_doubt(i.abandoned)
    from (
      select i.id
      from unnest(b.ids * outbox_settle.doubtful) r
      cross join lateral generate_series(lower(r), upper(r) - 1) i(id)) d
    where i.lane = b.lane
      and i.id = d.id;
    perform turno.inbox_give_back_batch(a.ids, array_fill(b.token, array[cardinality(a.ids)]))
    from (
      select array_agg(i.id) as ids
      from unnest(b.ids) r
      cross join lateral generate_series(lower(r), upper(r) - 1) i(id)) a;
    if cardinality(outbox_settle.deferred) > 0 then
      update turno.inbox_item i
      set run_at = clock_timestamp() + u.delay
      from unnest(outbox_settle.deferred, outbox_settle.delays) u(id, delay)
      where i.lane = b.lane
        and i.id = u.id
        and u.delay > '0'
        and b.ids @> u.id;
    end if;
  end if;
  return s;
end
$$;

comment on function turno.outbox_settle is
  'Ends a claim: what was sent leaves the outbox, what was refused is tried again or dead, whatever else was claimed goes back, at once or after its delay. A claim that is gone changes nothing, and is answered as stale.';

-- Whoever relays alone takes over at once what the one before it had in flight.
create or replace function turno.outbox_recover() returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.outbox_queue();
  many bigint;
begin
  perform pg_advisory_xact_lock(1953853038, q);
  with ended as (
    update turno.inbox_batch b
    set until = clock_timestamp()
    where b.queue_id = q
      and b.until > clock_timestamp()
    returning b.ids)
  select coalesce(sum(turno.inbox_count(e.ids)), 0) into many
  from ended e;
  if many > 0 then
    update turno.inbox_cursor c
    set expiry = clock_timestamp()
    where c.queue_id = q;
  end if;
  return many;
end
$$;

comment on function turno.outbox_recover is
  'Ends all claims on events at once: for a relay that has just become the only one. Answers how many events were in flight.';

-- Who holds the advisory lock of those that relay alone, as far as the server tells us.
create or replace function turno.outbox_leader(lock_id bigint default 42) returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(nullif(a.application_name, ''), 'somebody') || ' (server process ' || l.pid
    || coalesce(', from ' || host(a.client_addr), '') || ')'
  from pg_locks l
  left join pg_stat_activity a on a.pid = l.pid
  where l.locktype = 'advisory'
    and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.objsubid = 1
    and l.classid::bigint = (outbox_leader.lock_id >> 32) & 4294967295
    and l.objid::bigint = outbox_leader.lock_id & 4294967295
  limit 1
$$;

comment on function turno.outbox_leader is 'Who holds the advisory lock by which one relay at a time works; null if nobody does.';
