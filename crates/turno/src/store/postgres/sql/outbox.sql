-- Events: emitting, relaying, marking as processed.

-- Purpose: stores events in the caller's transaction: they are published if and only if it commits.
-- Index:   inbox_item_pkey, inbox_key_pkey.

-- The word by which brokers route an event: TicketStatusChangedEvent is ticket.status.changed. In Rust: sink/routing.rs.
create or replace function turno.outbox_routing_key(type text) returns text
language sql
immutable
as $$
  select case
    when c.class !~ '^[A-Z]' then type
    -- Of these letters only: what others are in small ones depends on the database.
    else lower(regexp_replace(
      regexp_replace(
        case when c.class = 'Event' then c.class else regexp_replace(c.class, 'Event$', '') end,
        '([A-Z])([A-Z][a-z])', '\1.\2', 'g'),
      '([^A-Z._-])([A-Z])', '\1.\2', 'g') collate "C")
  end
  from regexp_replace(type, '^.*[.:+/]', '') c(class)
$$;

-- An id that grows with the time, as RFC 9562 has it (version 7).
create or replace function turno.uuid7() returns uuid
language sql
volatile
as $$
  select encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
          from 1 for 6),
        52, 1),
      53, 1), 'hex')::uuid
$$;

-- Header names that sinks write themselves.
create or replace function turno.outbox_reserved(header text) returns boolean
language sql
immutable
as $$
  select lower(header) in (
      'type', 'correlationid', 'timestamp', 'key', 'traceparent', 'tracestate', 'x-possible-duplicate', 'idempotency-key')
    or lower(header) ~ '^(ce-|webhook-|nats-|content-)'
$$;

-- What the item of an event has as its payload. The arguments are JSON where they go in as they are.
create or replace function turno.outbox_payload(
  type           text,
  payload        text,
  correlation_id text,
  traceparent    text,
  tracestate     text,
  headers        text
) returns json
language sql
stable
as $$
  select ('{"type":' || to_json(type)
    || coalesce(',"correlation_id":' || to_json(correlation_id), '')
    || coalesce(',"traceparent":' || to_json(traceparent), '')
    || coalesce(',"tracestate":' || to_json(tracestate), '')
    || coalesce(',"headers":' || headers, '')
    || ',"payload":' || payload || '}')::json
$$;

create or replace function turno.outbox_check(
  types           text[],
  payloads        text[],
  keys            text[],
  correlation_ids text[],
  traceparents    text[],
  tracestates     text[],
  headers         text[],
  delays          interval[],
  max_payload     integer
) returns void
language plpgsql
stable
as $$
declare
  many  integer := coalesce(cardinality(types), 0);
  wrong text;
begin
  if many > 10000 then
    raise exception 'events has % entries, and 10000 is the most', many
      using errcode = 'invalid_parameter_value', hint = 'Divide them.';
  end if;
  -- The whole first: most types are short. A routing key has at most one dot more for each letter of the type.
  if exists (select from unnest(types) t where turno.is_name(t, 127) is not true) then
    perform turno.check_name('type', t, 255)
    from unnest(types) t;
    select t into wrong
    from unnest(types) t
    where octet_length(turno.outbox_routing_key(t)) > 255
    limit 1;
    if found then
      raise exception 'type is too long: its routing key has more than 255 bytes (%…)', left(wrong, 60)
        using errcode = 'invalid_parameter_value', hint = 'Give the event a shorter type.';
    end if;
  end if;
  if coalesce(cardinality(payloads), 0) <> many or exists (
    select from unnest(payloads) p
    where p is null or octet_length(p) > least(max_payload, 1048576)) then
    if array_position(payloads, null) is not null or coalesce(cardinality(payloads), 0) <> many then
      raise exception 'payload is missing'
        using errcode = 'invalid_parameter_value', hint = 'Give each event a payload, JSON null if there is nothing to say.';
    end if;
    perform turno.check_max_payload(max_payload, (select max(octet_length(p)) from unnest(payloads) p));
  end if;
  if turno.has_any(keys) then
    perform turno.check_name('key', k, 255) from unnest(keys) k where k is not null;
  end if;
  if turno.has_any(correlation_ids) then
    perform turno.check_name('correlation_id', c, 255) from unnest(correlation_ids) c where c is not null;
  end if;
  if turno.has_any(traceparents) and exists (select from unnest(traceparents) t where t !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,200})?$') then
    raise exception 'traceparent is not one of the W3C''s'
      using errcode = 'invalid_parameter_value', hint = 'It looks like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.';
  end if;
  if turno.has_any(tracestates) then
    perform turno.check_name('tracestate', t, 512) from unnest(tracestates) t where t is not null;
  end if;
  if turno.has_any(delays) and exists (select from unnest(delays) d where d < '0' or d > '3660 days') then
    raise exception 'delay must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Choose an earlier time.';
  end if;
  if not turno.has_any(headers) then
    return;
  end if;
  if exists (select from unnest(headers) h where h is not null and json_typeof(h::json) <> 'object') then
    raise exception 'headers must be a JSON object of texts'
      using errcode = 'invalid_parameter_value', hint = 'Such as {"tenant": "7"}.';
  end if;
  if exists (
    select from unnest(headers) h
    where h is not null
      and (select count(*) from json_each(h::json)) > 64) then
    raise exception 'headers has more than 64 entries'
      using errcode = 'invalid_parameter_value', hint = 'Put them into the payload.';
  end if;
  select e.key into wrong
  from unnest(headers) h
  cross join lateral json_each(h::json) e
  where h is not null
    and (e.key !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$' or turno.outbox_reserved(e.key) or json_typeof(e.value) <> 'string'
      or octet_length(e.value #>> '{}') > 4096 or (e.value #>> '{}') ~ '[\u0001-\u001f\u007f-\u009f]')
  limit 1;
  if found then
    raise exception 'headers has one that cannot be sent: %', quote_literal(left(wrong, 100))
      using errcode = 'invalid_parameter_value',
        hint = 'A name has 1 to 100 letters, digits, _ . or -, and is none that sinks write themselves; a value is text of at most 4096 bytes without control characters.';
  end if;
end
$$;

-- Many at once. An array may be null where no event has what it is about. An id that is given is emitted once; answers
-- the ids in the same order, and the same ones if the request is repeated.
create or replace function turno.outbox_emit_batch(
  types           text[],
  payloads        text[],
  keys            text[]     default null,
  correlation_ids text[]     default null,
  traceparents    text[]     default null,
  tracestates     text[]     default null,
  headers         text[]     default null,
  delays          interval[] default null,
  ids             uuid[]     default null,
  max_payload     integer    default 1048576,
  request         uuid       default null
) returns uuid[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      turno.inbox_queue;
  answer jsonb;
  seqs   bigint[];
  events uuid[];
  fresh  bigint[];
  largest integer;
  stored bigint;
  timed  bigint;
begin
  -- Before any number is taken: see inbox_claim_late.
  perform pg_current_xact_id();
  if outbox_emit_batch.request is not null then
    answer := turno.inbox_answered_with(outbox_emit_batch.request, '{events}');
    if answer is not null then
      return (answer->>'events')::uuid[];
    end if;
  end if;
  perform turno.outbox_check(
    outbox_emit_batch.types, outbox_emit_batch.payloads, outbox_emit_batch.keys, outbox_emit_batch.correlation_ids,
    outbox_emit_batch.traceparents, outbox_emit_batch.tracestates, outbox_emit_batch.headers, outbox_emit_batch.delays,
    outbox_emit_batch.max_payload);
  select * into strict q
  from turno.inbox_queue t
  where t.name = '$outbox';
  -- With what an event has besides its payload and its headers.
  largest := (
    select max(octet_length(u.payload) + coalesce(octet_length(u.headers), 0)) + 4096
    from unnest(outbox_emit_batch.payloads, outbox_emit_batch.headers) u(payload, headers));
  perform turno.inbox_queue_store(q, 2, outbox_emit_batch.keys is not null, coalesce(largest, 0));
  seqs := array(
    select nextval('turno.inbox_item_id')
    from generate_series(1, cardinality(outbox_emit_batch.types)));
  events := array(
    select coalesce(outbox_emit_batch.ids[n], turno.uuid7())
    from generate_series(1, cardinality(outbox_emit_batch.types)) n);
  if outbox_emit_batch.ids is not null then
    with first as (
      insert into turno.inbox_key (queue_id, key, id)
      select distinct on (k.id) q.id, k.id::text, k.seq
      from unnest(outbox_emit_batch.ids, seqs) with ordinality k(id, seq, place)
      where k.id is not null
      order by k.id, k.place
      on conflict do nothing
      returning id)
    select array_agg(f.id) into fresh
    from first f;
  end if;
  with kept as (
    insert into turno.inbox_item (queue_priority, id, run_at, pushed_at, max_attempts, "group", key, payload)
    select
      q.id * 4 + 1, a.seq, case when a.delay > '0' then clock_timestamp() + a.delay end, clock_timestamp(),
      -- No limit: the relay decides how often an event may be refused, and relays that vanish are not its fault.
      0, a.key, a.id::text,
      -- The payload alone has to be JSON, and not only what it is put into.
      turno.outbox_payload(a.type, (a.payload::json)::text, a.correlation_id, a.traceparent, a.tracestate, a.header)
    from unnest(
      seqs, events, outbox_emit_batch.ids, outbox_emit_batch.types, outbox_emit_batch.payloads, outbox_emit_batch.keys,
      outbox_emit_batch.correlation_ids, outbox_emit_batch.traceparents, outbox_emit_batch.tracestates,
      outbox_emit_batch.headers, outbox_emit_batch.delays)
      a(seq, id, given, type, payload, key, correlation_id, traceparent, tracestate, header, delay)
    where a.given is null
       or a.seq = any (fresh)
    returning run_at)
  select count(*), count(k.run_at) into stored, timed
  from kept k;
  if stored > 0 then
    insert into turno.inbox_tally (queue_id, items, timed)
    values (q.id, stored, timed);
    perform turno.inbox_notify(q.name);
  end if;
  if outbox_emit_batch.request is not null then
    perform turno.inbox_answer(outbox_emit_batch.request, jsonb_build_object('events', events::text));
  end if;
  return events;
end
$$;

comment on function turno.outbox_emit_batch is
  'Emits many events in this transaction. An array may be null where no event has what it is about. Answers their ids; one that is given and known is not emitted again.';

-- The usual event has no options but a key and a correlation id. It takes four simple statements; outbox_emit_batch does the
-- rest, and says what is wrong.
create or replace function turno.outbox_emit(
  type           text,
  payload        json,
  key            text     default null,
  correlation_id text     default null,
  headers        json     default null,
  delay          interval default null,
  id             uuid     default null,
  traceparent    text     default null,
  tracestate     text     default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  -- Before any number is taken: see inbox_claim_late. Before the mark of a listener is read: see inbox_notify.
  own      xid8 := pg_current_xact_id();
  queue_id integer;
  listens  boolean;
  event    uuid;
begin
  if num_nulls(outbox_emit.headers, outbox_emit.delay, outbox_emit.id, outbox_emit.traceparent, outbox_emit.tracestate) = 5
     -- A routing key has at most one dot more for each letter of the type.
     and turno.is_name(outbox_emit.type, 127)
     and (outbox_emit.key is null or turno.is_name(outbox_emit.key, 255))
     and (outbox_emit.correlation_id is null or turno.is_name(outbox_emit.correlation_id, 255))
     and octet_length(outbox_emit.payload::text) <= 1048576 then
    select t.id, (select turno.inbox_is_listened(l.until, l.polled_until) from turno.inbox_listener l where l.queue = '$outbox')
    into queue_id, listens
    from turno.inbox_queue t
    where t.name = '$outbox'
      and t.priority_mask & 2 <> 0
      and (outbox_emit.key is null or t.grouped)
      and t.bytes >= octet_length(outbox_emit.payload::text) + 4096;
    if found then
      event := turno.uuid7();
      insert into turno.inbox_item (queue_priority, id, pushed_at, max_attempts, "group", key, payload)
      values (
        queue_id * 4 + 1, nextval('turno.inbox_item_id'), clock_timestamp(), 0, outbox_emit.key, event::text,
        turno.outbox_payload(outbox_emit.type, outbox_emit.payload::text, outbox_emit.correlation_id, null, null, null));
      insert into turno.inbox_tally (queue_id, items)
      values (queue_id, 1);
      if listens or current_setting('transaction_isolation') <> 'read committed' then
        perform turno.inbox_notify('$outbox');
      end if;
      return event;
    end if;
  end if;
  return (turno.outbox_emit_batch(
    array[outbox_emit.type], array[outbox_emit.payload::text],
    case when outbox_emit.key is not null then array[outbox_emit.key] end, array[outbox_emit.correlation_id],
    array[outbox_emit.traceparent], array[outbox_emit.tracestate], array[outbox_emit.headers::text],
    array[outbox_emit.delay], case when outbox_emit.id is not null then array[outbox_emit.id] end))[1];
end
$$;

comment on function turno.outbox_emit is
  'Emits an event in this transaction: it is published if and only if the transaction commits. Events with one key are published in order. Answers its id, which is the broker''s message id; a given id is emitted once.';

-- Purpose: what a relay does: takes events, and says what became of them.
-- Index:   those of inbox_claim.sql and inbox_settle.sql; inbox_failed_group, outbox_parked_pkey.

create or replace function turno.outbox_queue() returns integer
language sql
stable
as $$
  select turno.inbox_queue_id('$outbox')
$$;

-- The due time of a blocked event, which keeps its place until an operator decides.
create or replace function turno.outbox_blocked_until() returns timestamptz
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
    -- Not one regular expression that counts: it was a quarter of the time that an event took.
    when key like '________-____-____-____-____________' collate "C" and key !~ '[^0-9a-fA-F-]' collate "C"
      and length(replace(key, '-', '')) = 32 then key::uuid
    else '00000000-0000-0000-0000-000000000000'::uuid
  end
$$;

-- The ids of many events. In one cast, unless one of the keys is strange.
create or replace function turno.outbox_ids(keys text[]) returns uuid[]
language plpgsql
immutable
as $$
begin
  if array_position(keys, null) is null then
    begin
      return keys::uuid[];
    exception when invalid_text_representation then
      null;
    end;
  end if;
  return array(
    select turno.outbox_id(k.key)
    from unnest(keys) with ordinality k(key, place)
    order by k.place);
end
$$;

-- Whether any key is parked now.
create or replace function turno.outbox_has_parked() returns boolean
language plpgsql
volatile
as $$
begin
  return exists (select from turno.outbox_parked);
end
$$;

-- Whether a key is parked now. Volatile, and not a subquery: a claim waits for its turn, and its own statement does not see
-- what was parked meanwhile. An event of that key would be published.
create or replace function turno.outbox_is_parked(key text) returns boolean
language plpgsql
volatile
as $$
begin
  return exists (select from turno.outbox_parked p where p.key = outbox_is_parked.key);
end
$$;

-- The token is the caller's choice: the same call repeated is answered the same. With order, of each key the first one
-- only; without it, all in the order in which they were emitted. A claim that is not durable can be forgotten in a crash: then what
-- its relay has published is published again without a label.
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
    -- The subquery is evaluated once, with the first event that has a key.
    t."group" is not null and (select turno.outbox_has_parked()) and turno.outbox_is_parked(t."group"), t.expires_at
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
  b      turno.inbox_claim;
  own    uuid := coalesce(outbox_settle.request, gen_random_uuid());
  hit    int8multirange;
  asked  bigint := turno.inbox_count(outbox_settle.sent) + coalesce(cardinality(outbox_settle.refused), 0);
  ended  record;
  s      turno.outbox_settled := row(0, 0, 0, 0)::turno.outbox_settled;
begin
  if exists (select from unnest(outbox_settle.delays) d where d < '0' or d > '3660 days') then
    raise exception 'delays must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Give one delay for each deferred event.';
  end if;
  select * into b
  from turno.inbox_claim t
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
    if outbox_settle.archive then
      insert into turno.outbox_archive (id, seq, key, emitted_at, dispatched_at, relay, event)
      select turno.outbox_id(i.key), i.id, i."group", i.pushed_at, clock_timestamp(), b.worker, i.payload
      from turno.inbox_item i
      where i.ctid = any (array(select p.at from turno.inbox_places(b.queue_priority, hit) p));
    end if;
    ended := turno.inbox_end_items(b, hit);
    s.sent := ended.many;
    insert into turno.inbox_done as d (request, token, queue_id, at, worker, ids)
    values (own, b.token, b.queue_id, clock_timestamp(), b.worker, hit)
    on conflict (request, token, queue_id) do update
    set ids = d.ids + excluded.ids;
    insert into turno.outbox_sent (at, outcome, "by", ids)
    values (clock_timestamp(), 'dispatched', b.worker, turno.outbox_ids(ended.keys));
    if ended.groups is not null then
      perform turno.inbox_free(array[b.token], array_fill(b.queue_id, array[cardinality(ended.groups)]), ended.groups);
    end if;
  end if;

  if cardinality(outbox_settle.refused) > 0 then
    insert into turno.outbox_parked (key, id, at)
    select distinct on (i."group") i."group", turno.outbox_id(i.key), clock_timestamp()
    from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
    cross join lateral (
      select *
      from turno.inbox_item t
      where t.queue_priority = b.queue_priority
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
      set run_at = turno.outbox_blocked_until()
      from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
      where i.queue_priority = b.queue_priority
        and i.id = u.id
        and u.dead = 'block'
        and b.ids @> u.id;
    end if;
  end if;
  s.stale := asked - s.sent - s.refused;

  select * into b
  from turno.inbox_claim t
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
    where i.queue_priority = b.queue_priority
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
      where i.queue_priority = b.queue_priority
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

-- A new leader takes over at once the events that the former leader had in flight.
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
  perform turno.inbox_wait_turn('$outbox', false, false);
  with ended as (
    update turno.inbox_claim b
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
  select coalesce(nullif(a.application_name, ''), 'a relay') || ' (server process ' || l.pid
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

comment on function turno.outbox_leader is 'Who holds the advisory lock by which one relay at a time works; null if there is none.';

-- Purpose: the consumer's side of at-least-once: true the first time only, in the consumer's own transaction.
-- Index:   seen_pkey.

create or replace function turno.seen(consumer text, event_id uuid) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform turno.check_name('consumer', seen.consumer, 255);
  if seen.event_id is null then
    raise exception 'event_id is null'
      using errcode = 'invalid_parameter_value', hint = 'Give the message id of what was delivered.';
  end if;
  -- Waits for another transaction that handles the same event: it may roll back.
  insert into turno.seen (consumer, event_id, at)
  values (seen.consumer, seen.event_id, clock_timestamp())
  on conflict do nothing;
  return found;
end
$$;

comment on function turno.seen is
  'True if this consumer sees the event for the first time, and remembers it together with what else this transaction does: handle the event only then.';
