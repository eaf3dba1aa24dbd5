-- Storing items: one push, several pushes in one statement, pushes of schedules.

-- Purpose: stores items, all or none; a known key is answered as a duplicate.
-- Index:   inbox_item_pkey, inbox_key_pkey.

create or replace function turno.inbox_push_check(
  queue        text,
  payloads     text[],
  keys         text[],
  priorities   integer[],
  delays       interval[],
  run_ats      timestamptz[],
  groups       text[],
  max_attempts integer[],
  max_payload  integer
) returns void
language plpgsql
stable
as $$
declare
  many  integer := coalesce(cardinality(payloads), 0);
  wrong text;
begin
  perform turno.check_name('queue', queue, 255);
  if starts_with(queue, '$') then
    raise exception 'queue is %, and names that begin with $ are Turno''s own', quote_literal(queue)
      using errcode = 'invalid_parameter_value', hint = 'Choose another name; events are emitted with outbox_emit.';
  end if;
  if many > 10000 then
    raise exception 'items has % entries, and 10000 is the most', many
      using errcode = 'invalid_parameter_value', hint = 'Divide them.';
  end if;
  -- The whole first: a set-based look costs less than one by one, and is enough nearly always.
  if exists (
    select from unnest(payloads) p
    where p is null or octet_length(p) > least(max_payload, 1048576)) then
    if array_position(payloads, null) is not null then
      raise exception 'payload is missing'
        using errcode = 'invalid_parameter_value', hint = 'Give each item a payload, JSON null if there is nothing to say.';
    end if;
    perform turno.check_max_payload(max_payload, (select max(octet_length(p)) from unnest(payloads) p));
  end if;
  if turno.has_any(priorities) and exists (select from unnest(priorities) p where p not between 0 and 3) then
    select min(p)::text into wrong from unnest(priorities) p where p not between 0 and 3;
    raise exception 'priority is %, and must be between 0 and 3', wrong
      using errcode = 'invalid_parameter_value', hint = '0 is the most urgent, 1 the default.';
  end if;
  if turno.has_any(max_attempts) and exists (select from unnest(max_attempts) m where m not between 1 and 1000) then
    raise exception 'max_attempts must be between 1 and 1000'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for 5.';
  end if;
  if turno.has_any(delays) and exists (select from unnest(delays) d where d < '0' or d > '3660 days') then
    raise exception 'delay must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Choose an earlier time.';
  end if;
  if turno.has_any(run_ats) and exists (select from unnest(run_ats) t where not isfinite(t)) then
    raise exception 'run_at must be a time, not infinity'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for at once.';
  end if;
  if turno.has_any(keys) then
    perform turno.check_name('key', k, 255) from unnest(keys) k where k is not null;
  end if;
  if turno.has_any(groups) then
    perform turno.check_name('group', g, 255) from unnest(groups) g where g is not null;
  end if;
end
$$;

-- What is remembered of a push, should it be asked again.
create or replace function turno.inbox_push_answer(ids bigint[], duplicates integer[]) returns jsonb
language sql
stable
as $$
  select case
    -- In the order of their numbers, if none is a duplicate: a few bytes for a thousand.
    when duplicates is null then jsonb_build_object('ranges', turno.inbox_id_ranges(ids))
    else jsonb_build_object('ids', ids::text, 'duplicates', duplicates::text)
  end
$$;

-- Many at once. An array may be null where all items have the default. Answers their ids in the same order, and the
-- places, counted from one, of those whose keys were known: there the id is that of the item that has the key.
create or replace function turno.inbox_push_batch(
  queue        text,
  payloads     text[],
  keys         text[]        default null,
  priorities   integer[]     default null,
  delays       interval[]    default null,
  run_ats      timestamptz[] default null,
  groups       text[]        default null,
  max_attempts integer[]     default null,
  request      uuid          default null,
  max_payload  integer       default 1048576,
  out ids        bigint[],
  out duplicates integer[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      turno.inbox_queue;
  answer jsonb;
  fresh  bigint[];
  owners bigint[];  -- for each item, the one that has its key: itself, if it has none
  gone   boolean;
  stored bigint;
  timed  bigint;
  new_mask integer;
  largest integer;
begin
  -- Before any number is taken: see inbox_claim_late.
  perform pg_current_xact_id();
  if inbox_push_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_push_batch.request, '{ids,ranges}');
    if answer is not null then
      duplicates := answer->>'duplicates';
      ids := coalesce((answer->>'ids')::bigint[], array(
        select i
        from unnest((answer->>'ranges')::int8multirange) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i));
      return;
    end if;
  end if;
  perform turno.inbox_push_check(
    inbox_push_batch.queue, inbox_push_batch.payloads, inbox_push_batch.keys, inbox_push_batch.priorities,
    inbox_push_batch.delays, inbox_push_batch.run_ats, inbox_push_batch.groups, inbox_push_batch.max_attempts,
    inbox_push_batch.max_payload);
  select * into q
  from turno.inbox_queue t
  where t.name = inbox_push_batch.queue;
  if not found then
    q := turno.inbox_queue_made(inbox_push_batch.queue);
  end if;
  new_mask := coalesce((select bit_or(1 << coalesce(p, 1)) from unnest(inbox_push_batch.priorities) p), 2);
  largest := (select max(octet_length(p)) from unnest(inbox_push_batch.payloads) p);
  perform turno.inbox_queue_store(q, new_mask, inbox_push_batch.groups is not null, coalesce(largest, 0));

  ids := array(
    select nextval('turno.inbox_item_id')
    from generate_series(1, cardinality(inbox_push_batch.payloads)));
  if inbox_push_batch.keys is not null then
    loop
      with first as (
        insert into turno.inbox_key (queue_id, key, id)
        select distinct on (k.key) q.id, k.key, k.id
        from unnest(inbox_push_batch.keys, ids) with ordinality k(key, id, place)
        where k.key is not null
        order by k.key, k.place
        on conflict do nothing
        returning id)
      select fresh || array_agg(f.id) into fresh
      from first f;
      -- A statement of its own: it sees the rows that the keys met.
      select array_agg(coalesce(t.id, a.id) order by a.place), bool_or(a.key is not null and t.id is null)
      into owners, gone
      from unnest(inbox_push_batch.keys, ids) with ordinality a(key, id, place)
      left join lateral (
        select k.id
        from turno.inbox_key k
        where k.queue_id = q.id
          and k.key = a.key
        offset 0) t on true;
      -- A key that was met and has gone since was swept in between: it is free.
      exit when not gone;
    end loop;
  end if;

  if num_nulls(
    inbox_push_batch.keys, inbox_push_batch.priorities, inbox_push_batch.delays, inbox_push_batch.run_ats,
    inbox_push_batch.groups, inbox_push_batch.max_attempts) = 6 then
    -- Most are as plain as that, and each array more to go through takes its time.
    insert into turno.inbox_item (queue_priority, id, pushed_at, max_attempts, payload)
    select q.id * 4 + 1, a.id, clock_timestamp(), 5, a.payload::json
    from unnest(ids, inbox_push_batch.payloads) a(id, payload);
    stored := cardinality(ids);
    timed := 0;
  else
    with kept as (
      insert into turno.inbox_item (queue_priority, id, run_at, pushed_at, max_attempts, "group", key, payload)
      select
        q.id * 4 + coalesce(a.priority, 1), a.id,
        -- A time that has come is no time: the item stands in line with the others.
        case when a.delay > '0' then clock_timestamp() + a.delay when a.run_at > clock_timestamp() then a.run_at end,
        clock_timestamp(), coalesce(a.max_attempts, 5), a."group", a.key, a.payload::json
      from unnest(
        ids, inbox_push_batch.payloads, inbox_push_batch.keys, inbox_push_batch.priorities, inbox_push_batch.delays,
        inbox_push_batch.run_ats, inbox_push_batch.groups, inbox_push_batch.max_attempts)
        a(id, payload, key, priority, delay, run_at, "group", max_attempts)
      where a.key is null
         or a.id = any (fresh)
      returning run_at)
    select count(*), count(k.run_at) into stored, timed
    from kept k;
  end if;
  insert into turno.inbox_tally (queue_id, items, timed)
  select q.id, stored, timed
  where stored > 0;
  perform turno.inbox_notify(q.name);

  if stored < cardinality(ids) then
    select array_agg(a.place order by a.place)
    into duplicates
    from unnest(ids, owners) with ordinality a(id, owner, place)
    where a.owner <> a.id;
    ids := owners;
  end if;
  if inbox_push_batch.request is not null then
    perform turno.inbox_answer(inbox_push_batch.request, turno.inbox_push_answer(ids, duplicates));
  end if;
end
$$;

comment on function turno.inbox_push_batch is
  'Stores many items, all or none. An array may be null where all items have the default. Answers their ids, and the places of duplicates.';

-- One item, in two statements. The rules are those of inbox_push_batch, which takes what is not usual: a key, a request, a queue or
-- a kind of item that is new, and what has to be rejected.
create or replace function turno.inbox_push(
  queue        text,
  payload      json,
  key          text        default null,
  priority     integer     default 1,
  delay        interval    default null,
  run_at       timestamptz default null,
  "group"      text        default null,
  max_attempts integer     default 5,
  request      uuid        default null,
  max_payload  integer     default 1048576
) returns turno.inbox_pushed
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  -- Before any number is taken: see inbox_claim_late. Before the mark of a listener is read: see inbox_notify.
  own      xid8 := pg_current_xact_id();
  queue_id integer;
  id       bigint;
  listens  boolean;
  item     record;
begin
  if num_nulls(inbox_push.key, inbox_push.delay, inbox_push.run_at, inbox_push."group", inbox_push.request) = 5
     and inbox_push.priority between 0 and 3
     and inbox_push.max_attempts between 1 and 1000 then
    -- A queue that is there has a good name.
    select t.id, (select turno.inbox_is_listened(l.until, l.polled_until) from turno.inbox_listener l where l.queue = inbox_push.queue)
    into queue_id, listens
    from turno.inbox_queue t
    where t.name = inbox_push.queue
      and not starts_with(t.name, '$')
      and t.priority_mask & (1 << inbox_push.priority) <> 0
      and least(t.bytes, inbox_push.max_payload, 1048576) >= octet_length(inbox_push.payload::text);
    if found then
      id := nextval('turno.inbox_item_id');
      insert into turno.inbox_item (queue_priority, id, pushed_at, max_attempts, payload)
      values (queue_id * 4 + inbox_push.priority, id, clock_timestamp(), inbox_push.max_attempts, inbox_push.payload);
      insert into turno.inbox_tally (queue_id, items)
      values (queue_id, 1);
      if listens or current_setting('transaction_isolation') <> 'read committed' then
        perform turno.inbox_notify(inbox_push.queue);
      end if;
      return row(id, false)::turno.inbox_pushed;
    end if;
  end if;
  select b.ids[1], b.duplicates is not null into item
  from turno.inbox_push_batch(
    inbox_push.queue, array[inbox_push.payload::text], case when inbox_push.key is not null then array[inbox_push.key] end,
    array[inbox_push.priority], array[inbox_push.delay], array[inbox_push.run_at],
    case when inbox_push."group" is not null then array[inbox_push."group"] end, array[inbox_push.max_attempts],
    inbox_push.request, inbox_push.max_payload) b;
  return item;
end
$$;

comment on function turno.inbox_push is
  'Puts one item of work into a queue. With a key that the queue knows, nothing is stored and duplicate is true.';

-- Purpose: small pushes of several callers that arrived together: one round trip and one commit. Each caller's request is
--          remembered by itself, and answered by itself; place says whose, counted from one.
-- Index:   inbox_request_pkey, and those of inbox_push_batch.
--
-- The calls of one queue are neighbours, and queues are in order, so that two batches cannot deadlock. A batch must not wait
-- for another application's open transaction, which may have pushed the same key: so it gives up soon, and calls without an
-- answer are repeated alone.

create or replace function turno.inbox_push_together(
  queues       text[],
  sizes        integer[],
  requests     uuid[],
  payloads     text[],
  keys         text[]        default null,
  priorities   integer[]     default null,
  delays       interval[]    default null,
  run_ats      timestamptz[] default null,
  groups       text[]        default null,
  max_attempts integer[]     default null,
  max_payload  integer       default 1048576
) returns table (place bigint, ids bigint[], duplicates integer[])
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  many    integer := cardinality(inbox_push_together.queues);
  first   integer := 1; -- the first caller of a queue, and the last
  last    integer;
  a       integer := 1; -- the first item of a queue, and the last
  b       integer;
  before  integer;
  got     record;
  answers jsonb[] := '{}';
begin
  -- Sent again, because its answer was lost: that is found alone.
  if exists (
    select from turno.inbox_request r
    where r.request = any (inbox_push_together.requests)) then
    return;
  end if;
  while first <= many loop
    last := first;
    b := a - 1 + inbox_push_together.sizes[first];
    while last < many and inbox_push_together.queues[last + 1] = inbox_push_together.queues[first] loop
      last := last + 1;
      b := b + inbox_push_together.sizes[last];
    end loop;
    -- Null, if no item of the queue has a group: so a queue without groups stays one.
    select p.ids, p.duplicates into got
    from turno.inbox_push_batch(
      inbox_push_together.queues[first],
      inbox_push_together.payloads[a:b],
      case when array_remove(inbox_push_together.keys[a:b], null) <> '{}' then inbox_push_together.keys[a:b] end,
      inbox_push_together.priorities[a:b],
      case when array_remove(inbox_push_together.delays[a:b], null) <> '{}' then inbox_push_together.delays[a:b] end,
      case when array_remove(inbox_push_together.run_ats[a:b], null) <> '{}' then inbox_push_together.run_ats[a:b] end,
      case when array_remove(inbox_push_together.groups[a:b], null) <> '{}' then inbox_push_together.groups[a:b] end,
      inbox_push_together.max_attempts[a:b],
      null, inbox_push_together.max_payload) p;
    before := 0;
    for i in first..last loop
      place := i;
      ids := got.ids[before + 1:before + inbox_push_together.sizes[i]];
      duplicates := null;
      if got.duplicates is not null then
        select array_agg(d - before order by d) into duplicates
        from unnest(got.duplicates) d
        where d > before
          and d <= before + inbox_push_together.sizes[i];
      end if;
      answers := answers || turno.inbox_push_answer(ids, duplicates);
      before := before + inbox_push_together.sizes[i];
      return next;
    end loop;
    first := last + 1;
    a := b + 1;
  end loop;

  insert into turno.inbox_request (request, at, answer)
  select r.request, clock_timestamp(), r.answer
  from unnest(inbox_push_together.requests, answers) r(request, answer)
  on conflict do nothing;
  get diagnostics last = row_count;
  if last < many then
    raise exception 'one of the requests is being answered already'
      using errcode = 'serialization_failure', hint = 'Ask again: the answer is the same.';
  end if;
end
$$;

comment on function turno.inbox_push_together is
  'Stores the items of several callers, each with its own answer; a call without an answer is repeated alone. Calls of one queue are neighbours, and queues are in order.';

-- Purpose: each tick of a schedule is pushed once, whatever number of instances run it.
-- Index:   schedule_pkey.

-- A schedule that is new begins now: it has no past to catch up with.
create or replace function turno.schedule_state(name text, out now timestamptz, out last timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  select s.last into schedule_state.last
  from turno.schedule s
  where s.name = schedule_state.name;
  if not found then
    perform turno.check_name('schedule', schedule_state.name, 255);
    insert into turno.schedule as s (name, last)
    values (schedule_state.name, clock_timestamp())
    on conflict (name) do nothing;
    select s.last into schedule_state.last
    from turno.schedule s
    where s.name = schedule_state.name;
  end if;
  schedule_state.now := clock_timestamp();
end
$$;

comment on function turno.schedule_state is 'The clock, and the last tick of a schedule; a new one begins now.';

-- The row is the guard: the caller that updates it pushes, in the same transaction. Without a payload, the tick is passed over.
create or replace function turno.schedule_tick(
  name         text,
  tick         timestamptz,
  queue        text,
  payload      json,
  key          text        default null,
  priority     integer     default 1,
  delay        interval    default null,
  run_at       timestamptz default null,
  "group"      text        default null,
  max_attempts integer     default 5,
  max_payload  integer     default 1048576,
  out ours     boolean,
  out id       bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update turno.schedule s
  set last = schedule_tick.tick
  where s.name = schedule_tick.name
    and s.last < schedule_tick.tick;
  schedule_tick.ours := found;
  if schedule_tick.ours and schedule_tick.payload is not null then
    select p.id into schedule_tick.id
    from turno.inbox_push(
      schedule_tick.queue, schedule_tick.payload, schedule_tick.key, schedule_tick.priority, schedule_tick.delay,
      schedule_tick.run_at, schedule_tick."group", schedule_tick.max_attempts, null, schedule_tick.max_payload) p;
  end if;
end
$$;

comment on function turno.schedule_tick is
  'Moves a schedule on to a tick and pushes its item, in one step; ours is false if another instance did so before.';
