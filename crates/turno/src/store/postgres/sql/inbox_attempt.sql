-- What claims need: when an item may be claimed, attempts, groups, late items, ids in commit order.

-- Purpose: when an item may be claimed. These functions are the only place with this rule, and every claim of inbox and outbox
--          calls them. Each one is a single expression in language sql, so the planner inlines it and its index use is that of
--          the expression. Two functions, because items with and without a due time are found by different indexes.
-- Index:   inbox_item_pkey for items without a due time, inbox_item_due for the others.

-- Whether an item has no due time: it may be claimed when it is first in its group and in no claim. A claimed item is
-- behind the cursor of its queue, or its due time is infinity.
create or replace function turno.inbox_is_ready(run_at timestamptz) returns boolean
language sql
immutable
as $$
  select run_at is null
$$;

-- Whether the due time of an item has come.
create or replace function turno.inbox_is_due(run_at timestamptz, at timestamptz) returns boolean
language sql
immutable
as $$
  select run_at <= at
$$;

-- Whether a claim has ended because its lease expired, so that another claim may take its items over.
create or replace function turno.inbox_claim_has_expired(until timestamptz, at timestamptz) returns boolean
language sql
immutable
as $$
  select until <= at
$$;

-- Purpose: the effect of an attempt without success on its item.
-- Index:   inbox_item_pkey.

-- An error's text as it is kept: at most 4000 bytes of it, and no half character. A byte that continues one begins with
-- the bits 10.
create or replace function turno.inbox_truncate_error(error text) returns text
language sql
immutable
as $$
  select case
    when octet_length(b.bytes) <= 4000 then error
    else (
      select convert_from(substr(b.bytes, 1, n), 'UTF8')
      from generate_series(4000, 3997, -1) n
      where get_byte(b.bytes, n) & 192 <> 128
      order by n desc
      limit 1)
  end
  from convert_to(error, 'UTF8') b(bytes)
$$;

-- Kept: the last ten.
create or replace function turno.inbox_errors(errors jsonb, attempt integer, kind text, error text, worker text) returns jsonb
language sql
volatile
as $$
  select jsonb_agg(e.e order by e.n)
  from (
    select u.e, u.n
    from jsonb_array_elements(
      coalesce(errors, '[]') || jsonb_build_object(
        'attempt', attempt, 'at', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'kind', kind, 'error', error, 'worker', worker)) with ordinality u(e, n)
    order by u.n desc
    limit 10) e
$$;

-- The error of an attempt whose worker did not extend its claim.
create or replace function turno.inbox_lost_worker_error() returns text
language sql
immutable
as $$
  select 'the worker vanished: its claim was not extended in time'
$$;

-- How many to add for one more doubt (an attempt whose outcome is unknown): 1, or 0 from a million on. Doubts saturate, and
-- attempts is always the sum of the failed and the doubtful ones, so no counter overflows.
create or replace function turno.inbox_doubt(abandoned integer) returns integer
language sql
immutable
as $$
  select (abandoned < 1000000)::integer
$$;

-- Counts the attempt, and puts the item off until again_at, or (null, or no attempts left) aside. Answers its group. With
-- max_attempts = 0 there is no limit: only a null again_at puts the item aside.
create or replace function turno.inbox_end_attempt(
  queue_priority     integer,
  id       bigint,
  kind     text,
  error    text,
  worker   text,
  again_at timestamptz
) returns text
language plpgsql
as $$
#variable_conflict use_column
declare
  i     turno.inbox_item;
  doubt integer;
begin
  select * into i
  from turno.inbox_item t
  where t.queue_priority = inbox_end_attempt.queue_priority
    and t.id = inbox_end_attempt.id
  for update;
  if not found then
    return null;
  end if;
  if inbox_end_attempt.kind = 'abandoned' then
    doubt := turno.inbox_doubt(i.abandoned);
    i.attempts := i.attempts + doubt;
    i.abandoned := i.abandoned + doubt;
  else
    i.attempts := i.attempts + 1;
  end if;
  i.errors := turno.inbox_errors(
    i.errors, i.attempts, inbox_end_attempt.kind, inbox_end_attempt.error, inbox_end_attempt.worker);
  if inbox_end_attempt.again_at is not null and (i.max_attempts = 0 or i.attempts < i.max_attempts) then
    update turno.inbox_item t
    set run_at    = inbox_end_attempt.again_at,
        attempts  = i.attempts,
        abandoned = i.abandoned,
        errors    = i.errors
    where t.queue_priority = i.queue_priority
      and t.id = i.id;
    insert into turno.inbox_tally (queue_id, timed)
    values (i.queue_priority / 4, 1);
    return i."group";
  end if;
  delete from turno.inbox_item t
  where t.queue_priority = i.queue_priority
    and t.id = i.id;
  insert into turno.inbox_failed (
    id, queue_priority, failed_at, pushed_at, attempts, abandoned, max_attempts, "group", key, errors, payload, worker)
  values (
    i.id, i.queue_priority, clock_timestamp(), i.pushed_at, i.attempts, i.abandoned, i.max_attempts, i."group", i.key, i.errors,
    i.payload, inbox_end_attempt.worker);
  insert into turno.inbox_tally (queue_id, items, failed)
  values (i.queue_priority / 4, -1, 1);
  return i."group";
end
$$;

-- Ends the attempts of one expired claim, each by itself. An item whose attempt cannot be ended is put off for a minute and
-- not counted, so that the others are not held up. Answers the groups of the items.
create or replace function turno.inbox_abandon_each(queue_priority integer, ids int8multirange, worker text) returns text[]
language plpgsql
as $$
#variable_conflict use_column
declare
  item     bigint;
  of_item  text;
  groups   text[] := '{}';
begin
  for item in
    select i.id
    from unnest(inbox_abandon_each.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
  loop
    begin
      of_item := turno.inbox_end_attempt(
        inbox_abandon_each.queue_priority, item, 'abandoned', turno.inbox_lost_worker_error(), inbox_abandon_each.worker, clock_timestamp());
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        raise warning 'the attempt at item % could not be ended: %', item, sqlerrm
          using hint = 'The item is tried again in a minute. Other items are claimed as usual.';
        of_item := null;
        with back as (
          update turno.inbox_item t
          set run_at = clock_timestamp() + interval '1 minute'
          where t.queue_priority = inbox_abandon_each.queue_priority
            and t.id = item
          returning t."group"),
        counted as (
          insert into turno.inbox_tally (queue_id, timed)
          select inbox_abandon_each.queue_priority / 4, 1
          from back)
        select b."group" into of_item
        from back b;
    end;
    groups := groups || of_item;
  end loop;
  return groups;
end
$$;

-- Takes over expired claims; not all of them, if they are very many, because the claim that calls it has to wait. Returns when
-- the next one expires.
create or replace function turno.inbox_abandon(queue_id integer) returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at  timestamptz := clock_timestamp();
  b       turno.inbox_claim;
  many    bigint := 0;
  taken   integer := 0;
  groups  text[];
  expired tid[];
  next    timestamptz;
begin
  -- Once for both: while a transaction is open for long, this reads all claims that have ended since it began.
  select
    array_agg(t.ctid) filter (where turno.inbox_claim_has_expired(t.until, now_at)),
    min(t.until) filter (where not turno.inbox_claim_has_expired(t.until, now_at))
  into expired, next
  from turno.inbox_claim t
  where t.queue_id = inbox_abandon.queue_id;
  for b in
    select *
    from turno.inbox_claim t
    where t.ctid = any (expired)
      -- Another claim may have the place meanwhile. Not by the index of queues, which has all claims that have ended.
      and t.queue_id + 0 = inbox_abandon.queue_id
      -- Its holder may have extended it.
      and turno.inbox_claim_has_expired(t.until, clock_timestamp())
    -- Items that were claimed first come first again.
    order by t.n
    for update skip locked
  loop
    if many >= 1000 then
      return clock_timestamp();
    end if;
    -- One bad item must not fail the claim of all others: then each one is ended by itself.
    begin
      groups := array(
        select turno.inbox_end_attempt(
          b.queue_priority, i.id, 'abandoned', turno.inbox_lost_worker_error(), b.worker, clock_timestamp())
        from unnest(b.ids) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i(id));
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        groups := turno.inbox_abandon_each(b.queue_priority, b.ids, b.worker);
    end;
    groups := array_remove(groups, null);
    if groups <> '{}' then
      perform turno.inbox_free(null, array_fill(inbox_abandon.queue_id, array[cardinality(groups)]), groups);
    end if;
    many := many + turno.inbox_count(b.ids);
    taken := taken + 1;
    delete from turno.inbox_claim t
    where t.token = b.token
      and t.queue_priority = b.queue_priority;
  end loop;
  if taken < cardinality(expired) then
    -- One that is just being settled is looked at again soon.
    next := now_at;
  end if;
  return case when next is null then 'infinity' else greatest(next, clock_timestamp() + '100 milliseconds') end;
end
$$;

-- Purpose: the rules of groups: one item at a time, the first one first.
-- Index:   inbox_item_group, inbox_claim_queue.
--
-- Whenever an item of a group leaves a worker's hands, for whatever reason, a note says so (inbox_freed): the next of the
-- group, which claims have passed over, may be claimed. So a note may be thrown away while its group is busy: there will
-- be another.

-- The first item of each group, of those in the queue: the only one that may be claimed.
create or replace function turno.inbox_heads(queue_id integer, groups text[])
returns table (queue_priority integer, id bigint, "group" text, run_at timestamptz)
language sql
stable
as $$
  select h.*
  from (
    select distinct g
    from unnest(inbox_heads.groups) g
    where g is not null) d
  cross join lateral (
    select i.queue_priority, i.id, i."group", i.run_at
    from turno.inbox_item i
    where hashtextextended(i."group", i.queue_priority / 4) = hashtextextended(d.g, inbox_heads.queue_id)
      and i."group" = d.g
      and i.queue_priority / 4 = inbox_heads.queue_id
    order by i.id
    limit 1) h
$$;

-- The groups of which an item is in a worker's hands. To be asked of those that may have come first only afterwards: a
-- revived item, or one that was committed late.
create or replace function turno.inbox_busy(queue_id integer) returns setof text
language sql
stable
as $$
  select g
  from turno.inbox_claim b
  cross join lateral unnest(b.groups) g
  where b.queue_id = inbox_busy.queue_id
$$;

-- Items of groups are no longer in flight: records it for each queue and group, removes the groups from these claims, and
-- notifies idle workers.
create or replace function turno.inbox_free(tokens uuid[], queues integer[], groups text[]) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  q     integer;
  freed text[];
begin
  for q in
    select distinct u
    from unnest(inbox_free.queues) u
  loop
    -- Of this queue: a call may settle claims of several, and groups of one name in two queues are two groups.
    freed := array(
      select u."group"
      from unnest(inbox_free.queues, inbox_free.groups) u(queue_id, "group")
      where u.queue_id = q);
    insert into turno.inbox_freed (queue_id, groups)
    select q, freed[n:n + 99]
    from generate_series(1, cardinality(freed), 100) n;
    update turno.inbox_claim b
    set groups = array(
      select g
      from unnest(b.groups) g
      where g not in (select f from unnest(freed) f))
    where b.token = any (inbox_free.tokens)
      and b.queue_id = q
      and b.groups is not null;
    perform turno.inbox_notify_by_id(q);
  end loop;
end
$$;

-- The next items of one priority, after a number; if they are to be in order, only the first of each group. Answers how far it
-- looked, too. The first items of some groups may be known already, and "ahead" is claimed already.
--
-- In growing pieces: where most items are behind others of their groups, each group is looked up once a piece, and not
-- once an item.
create or replace function turno.inbox_next_ready(
  in_queue_priority      integer,
  after        bigint,
  "limit"      integer,
  known_groups text[],
  known_heads  bigint[],
  in_order     boolean,
  ahead        bigint[],
  out ids      bigint[],
  out groups   text[],
  out ending   bigint
)
language plpgsql
as $$
#variable_conflict use_column
declare
  piece       integer := inbox_next_ready."limit";
  room        integer := inbox_next_ready."limit";
  seen_ids    bigint[];
  seen_groups text[];
  furthest    bigint;
  unknown     text[];
  heads       bigint[];
  some_ids    bigint[];
  some_groups text[];
begin
  ending := inbox_next_ready.after;
  loop
    -- The furthest in the same breath, or something could come between and be passed unseen.
    select
      array_agg(s.id), array_agg(s."group"),
      (select t.id from turno.inbox_item t where t.queue_priority = inbox_next_ready.in_queue_priority and t.id > ending order by t.id desc limit 1)
    into seen_ids, seen_groups, furthest
    from (
      select t.id, t."group"
      from turno.inbox_item t
      where t.queue_priority = inbox_next_ready.in_queue_priority
        and t.id > ending
        and turno.inbox_is_ready(t.run_at)
        and t.id <> all (inbox_next_ready.ahead)
      order by t.id
      limit piece) s;
    if not inbox_next_ready.in_order or array_remove(seen_groups, null) = '{}' then
      some_ids := seen_ids[1:room];
      some_groups := seen_groups[1:room];
    else
      unknown := array(
        select g
        from unnest(seen_groups) g
        where g not in (select unnest(inbox_next_ready.known_groups))
          -- The first of a busy group is claimed, and behind the cursor.
          and g not in (select b from turno.inbox_busy(inbox_next_ready.in_queue_priority / 4) b));
      select array_agg(h.id) into heads
      from turno.inbox_heads(inbox_next_ready.in_queue_priority / 4, unknown) h;
      select array_agg(r.id), array_agg(r."group") into some_ids, some_groups
      from (
        select s.id, s."group"
        from unnest(seen_ids, seen_groups) s(id, "group")
        where s."group" is null
           or s.id in (select unnest(heads || inbox_next_ready.known_heads))
        limit room) r;
    end if;
    ids := ids || some_ids;
    groups := groups || some_groups;
    room := room - coalesce(cardinality(some_ids), 0);
    if room = 0 then
      ending := some_ids[cardinality(some_ids)];
      return;
    end if;
    if coalesce(cardinality(seen_ids), 0) < piece then
      -- The end of the line: those that wait for a time are passed as well.
      ending := coalesce(furthest, ending);
      return;
    end if;
    ending := seen_ids[piece];
    piece := least(piece * 4, 10000);
  end loop;
end
$$;

-- Purpose: finds what was committed late.
-- Index:   inbox_item_pkey between the floor and the cursor, inbox_claim_queue.

-- The newest cursor of a queue.
create or replace function turno.inbox_last_cursor(queue_id integer) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  c turno.inbox_cursor;
begin
  select * into c
  from turno.inbox_cursor t
  where t.queue_id = inbox_last_cursor.queue_id
  order by t.n desc
  limit 1;
  return c;
end
$$;

-- Replaces a cursor. The caller is the only one that may.
create or replace function turno.inbox_move_cursor(old turno.inbox_cursor, c turno.inbox_cursor) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into turno.inbox_cursor (
    queue_id, n, at_id, floor_id, floor_n, mark_id, mark_n, mark_xid, late_at, late_cost, due_from, due_at, expiry, has_settings)
  values (
    c.queue_id, old.n + 1, c.at_id, c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost,
    c.due_from, c.due_at, c.expiry, c.has_settings);
  delete from turno.inbox_cursor t
  where t.queue_id = old.queue_id
    and t.n = old.n;
end
$$;

-- From which due time on to look. A clock that was set back is behind due_at: then all times are looked at, as after a second.
create or replace function turno.inbox_due_from(due_from timestamptz, due_at timestamptz, at timestamptz) returns timestamptz
language sql
stable
as $$
  select case when at between due_at and due_at + '1 second' then due_from else '-infinity' end
$$;

-- Items behind the cursor, above the floor, that are in line and in no claim: they were committed late, or wait for their group.
-- What was claimed before the floor was where it is lies below it.
create or replace function turno.inbox_behind(c turno.inbox_cursor)
returns table (queue_priority integer, id bigint, "group" text)
language sql
stable
as $$
  select i.queue_priority, i.id, i."group"
  from generate_series(0, 3) p
  cross join lateral (
    select coalesce(range_agg(r), '{}') as ids
    from turno.inbox_claim b
    cross join lateral unnest(b.ids) r
    where b.queue_id = c.queue_id
      and b.n > c.floor_n
      and b.queue_priority % 4 = p) held
  cross join lateral (
    select t.queue_priority, t.id, t."group"
    from turno.inbox_item t
    where t.queue_priority = c.queue_id * 4 + p
      and t.id > c.floor_id[p + 1]
      and t.id <= c.at_id[p + 1]
      and turno.inbox_is_ready(t.run_at)
      and not held.ids @> t.id
    -- So that the planner cannot read the whole table instead.
    offset 0) i
$$;

-- Raises the floor after a look behind the cursor that has left nothing. "oldest" is the oldest transaction that was running when
-- the look began.
create or replace function turno.inbox_raise_floor(c turno.inbox_cursor, own xid8, oldest xid8) returns turno.inbox_cursor
language plpgsql
as $$
begin
  if oldest >= own then
    c.floor_id := c.at_id;
    c.floor_n := c.n;
    c.mark_xid := null;
  elsif oldest > c.mark_xid then
    c.floor_id := c.mark_id;
    c.floor_n := c.mark_n;
    c.mark_xid := null;
  end if;
  if c.mark_xid is null and own is not null then
    c.mark_id := c.at_id;
    c.mark_n := c.n;
    c.mark_xid := own;
  end if;
  return c;
end
$$;

-- Claims what was committed behind the cursor: numbers are given out in order, and committed in any.
--
-- A push has a transaction id before it takes a number. So when all transactions with an id up to "own", which was assigned
-- after c was read, have ended, no item can appear any more up to the position of c: that is the floor, and only the items
-- between it and the cursor have to be checked.
create or replace function turno.inbox_claim_late(
  c       turno.inbox_cursor,
  own     xid8,
  "limit" integer,
  token   uuid,
  worker  text,
  until   timestamptz
) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  began      timestamptz := clock_timestamp();
  oldest     xid8;
  how_many   bigint;
begin
  with behind as materialized (
    select *
    from turno.inbox_behind(c)),
  late as materialized (
    select l.queue_priority, l.id, l."group"
    from behind l
    where l."group" is null
       -- Most are behind others of groups that are busy.
       or l.id in (
         select h.id
         from turno.inbox_heads(c.queue_id, array(
           select distinct g."group"
           from behind g
           where g."group" not in (select b from turno.inbox_busy(c.queue_id) b))) h)
    order by l.queue_priority, l.id
    limit inbox_claim_late."limit"),
  claimed as (
    insert into turno.inbox_claim as b (token, queue_priority, queue_id, n, ids, groups, worker, claimed_at, until)
    select
      inbox_claim_late.token, l.queue_priority, c.queue_id, c.n + 1, range_agg(int8range(l.id, l.id, '[]')),
      array_agg(l."group") filter (where l."group" is not null), inbox_claim_late.worker, clock_timestamp(), inbox_claim_late.until
    from late l
    group by l.queue_priority
    on conflict (token, queue_priority) do update
    set ids    = b.ids + excluded.ids,
        groups = b.groups || excluded.groups)
  select count(*), pg_snapshot_xmin(pg_current_snapshot()) into how_many, oldest
  from late;
  -- With the limit reached there may be more, and the floor stays.
  if how_many < inbox_claim_late."limit" then
    c := turno.inbox_raise_floor(c, own, oldest);
  end if;
  c.late_at := clock_timestamp();
  c.late_cost := c.late_at - began;
  return c;
end
$$;

-- Purpose: the numbers of items after the sequence has gone back: a data-only restore leaves it at its start, and logical replication
--          does not carry it. New items then have numbers that the cursors have passed, or that exist already.
-- Index:   inbox_item_pkey, inbox_failed_pkey, inbox_claim_queue.

-- The highest number in use.
create or replace function turno.inbox_highest_id() returns bigint
language sql
stable
as $$
  select greatest(
    (select max(i) from turno.inbox_cursor c cross join lateral unnest(c.at_id) i),
    (
      select max(i.id)
      from turno.inbox_queue q
      cross join lateral generate_series(0, 3) p
      cross join lateral (
        select t.id
        from turno.inbox_item t
        where t.queue_priority = q.id * 4 + p
        order by t.id desc
        limit 1) i),
    (select max(t.id) from turno.inbox_failed t),
    0)
$$;

-- Raises the sequence above every number in use. The advisory lock keeps two callers from setting it one after the other: numbers
-- that were taken in between would be taken again.
create or replace function turno.inbox_raise_sequence() returns void
language plpgsql
as $$
declare
  highest bigint;
begin
  perform pg_advisory_xact_lock(1953853038, 0);
  highest := turno.inbox_highest_id();
  if (select s.last_value from turno.inbox_item_id s) < highest then
    perform setval('turno.inbox_item_id', highest);
  end if;
end
$$;

-- Makes the next claim of a queue look at every item below the cursor, as it looks for those that were committed late. The caller
-- has the queue's advisory lock.
create or replace function turno.inbox_look_behind(queue_id integer) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  c turno.inbox_cursor;
begin
  update turno.inbox_cursor t
  set floor_id = '{0,0,0,0}',
      floor_n  = 0,
      mark_id  = null,
      mark_n   = null,
      mark_xid = null,
      late_at  = '-infinity'
  where t.queue_id = inbox_look_behind.queue_id
    and t.n = (select max(o.n) from turno.inbox_cursor o where o.queue_id = inbox_look_behind.queue_id)
  returning * into c;
  return c;
end
$$;

-- How many items a queue has below its floor that are in line and that no claim holds: none of them would be claimed. An item of
-- a group is not counted, because it may wait for another of its group. At most 1000 are counted.
create or replace function turno.inbox_unreachable(queue_id integer) returns bigint
language sql
stable
as $$
  select count(*)
  from (
    select
    from (
      select t.floor_id
      from turno.inbox_cursor t
      where t.queue_id = inbox_unreachable.queue_id
      order by t.n desc
      limit 1) c
    cross join lateral generate_series(0, 3) p
    cross join lateral (
      select coalesce(range_agg(r), '{}') as ids
      from turno.inbox_claim b
      cross join lateral unnest(b.ids) r
      where b.queue_id = inbox_unreachable.queue_id
        and b.queue_priority = inbox_unreachable.queue_id * 4 + p) held
    cross join lateral (
      select
      from turno.inbox_item t
      where t.queue_priority = inbox_unreachable.queue_id * 4 + p
        and t.id <= c.floor_id[p + 1]
        and turno.inbox_is_ready(t.run_at)
        and t."group" is null
        and not held.ids @> t.id
      limit 1000) i
    limit 1000) lost
$$;

-- What `turno doctor` reports.
create or replace function turno.inbox_numbers(out last_id bigint, out highest_id bigint, out unreachable bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    (select s.last_value from turno.inbox_item_id s),
    turno.inbox_highest_id(),
    (select coalesce(sum(turno.inbox_unreachable(q.id)), 0)::bigint from turno.inbox_queue q)
$$;

comment on function turno.inbox_numbers is
  'The last number that was given to an item, the highest in use, and how many items no claim would find. Repaired by `turno migrate --repair`.';

-- Repairs all queues. Answers how many items no claim would have found.
create or replace function turno.inbox_repair_numbers() returns bigint
language plpgsql
as $$
declare
  q    turno.inbox_queue;
  lost bigint;
  many bigint := 0;
begin
  perform turno.inbox_raise_sequence();
  for q in
    select *
    from turno.inbox_queue t
    order by t.id
  loop
    perform turno.inbox_wait_turn(q.name, false, false);
    lost := turno.inbox_unreachable(q.id);
    if lost > 0 then
      perform turno.inbox_look_behind(q.id);
      many := many + lost;
    end if;
  end loop;
  return many;
end
$$;
