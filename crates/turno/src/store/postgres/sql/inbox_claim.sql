-- Purpose: claims items that are due: by priority; then those that have waited for a time, and then the others in order.
-- Index:   inbox_item_pkey from the cursor on, inbox_item_due, inbox_item_group; other plans are ruled out,
--          because an unanalysed table would invite them.
--
-- Claims of one queue take turns (an advisory lock), and each leaves its cursor to the next. What can be behind
-- the cursor and claimable has told so: with a time (given back, failed, abandoned), in inbox_freed (the next of
-- a group); or it could not, because its transaction committed late (inbox_late).

-- Whether an item is the first of its group, of those in the queue. Where a line of them is walked along, the same is
-- written out: a call costs ten times as much as the look.
create or replace function turno.inbox_is_head(queue_id integer, "group" text, id bigint) returns boolean
language sql
stable
as $$
  select not exists (
    select from turno.inbox_item e
    where e.lane / 4 = inbox_is_head.queue_id
      and e."group" = inbox_is_head."group"
      and e.id < inbox_is_head.id)
$$;

-- Whether an item of a group is in a worker's hands. To be asked of those that may have come first only
-- afterwards: a revived item, or one that was committed late.
create or replace function turno.inbox_is_busy(queue_id integer, "group" text) returns boolean
language sql
stable
as $$
  select exists (
    select from turno.inbox_batch b
    where b.queue_id = inbox_is_busy.queue_id
      and inbox_is_busy."group" = any (b.groups))
$$;

-- Takes over the claims whose time is up. Answers when the next one will be.
create or replace function turno.inbox_abandon(queue_id integer) returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
declare
  b    turno.inbox_batch;
  next timestamptz;
begin
  for b in
    select *
    from turno.inbox_batch t
    where t.queue_id = inbox_abandon.queue_id
      and t.until <= clock_timestamp()
    for update skip locked
  loop
    perform turno.inbox_end_attempt(
      b.lane, i.id, 'abandoned', 'the worker vanished: its claim was not extended in time', b.worker, clock_timestamp())
    from unnest(b.ids) r, generate_series(lower(r), upper(r) - 1) i(id);
    delete from turno.inbox_batch t
    where t.token = b.token
      and t.lane = b.lane;
  end loop;
  select min(t.until) into next
  from turno.inbox_batch t
  where t.queue_id = inbox_abandon.queue_id;
  -- One that is just being settled is looked at again soon.
  return coalesce(greatest(next, clock_timestamp() + '100 milliseconds'), 'infinity');
end
$$;

-- Claims what was committed behind the cursor: numbers are given out in order, and committed in any.
--
-- Whoever pushes has a transaction id before it takes a number. So when all transactions with an id up to "own",
-- which was given out after c was read, have ended, nothing can appear any more up to where c is: that is the
-- floor, and only what lies between it and the cursor needs to be looked at.
create or replace function turno.inbox_late(
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
  with late as materialized (
    select i.lane, i.id, i."group"
    from generate_series(0, 3) p
    -- What was claimed since the floor was where it is; what was claimed before lies below it.
    cross join lateral (
      select coalesce(range_agg(r), '{}') as ids
      from turno.inbox_batch b
      cross join lateral unnest(b.ids) r
      where b.queue_id = c.queue_id
        and b.n > c.floor_n
        and b.lane = c.queue_id * 4 + p) held
    cross join lateral (
      select t.lane, t.id, t."group"
      from turno.inbox_item t
      where t.lane = c.queue_id * 4 + p
        and t.id > c.floor_id[p + 1]
        and t.id <= c.at_id[p + 1]
        and t.run_at is null
        and not held.ids @> t.id
        and (t."group" is null or (
          not exists (
            select from turno.inbox_item e
            where e.lane / 4 = c.queue_id
              and e."group" = t."group"
              and e.id < t.id)
          and not turno.inbox_is_busy(c.queue_id, t."group")))
      order by t.id
      limit inbox_late."limit") i
    limit inbox_late."limit"),
  claimed as (
    insert into turno.inbox_batch as b (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
    select
      inbox_late.token, l.lane, c.queue_id, c.n + 1, range_agg(int8range(l.id, l.id, '[]')),
      array_agg(l."group") filter (where l."group" is not null), inbox_late.worker, clock_timestamp(), inbox_late.until
    from late l
    group by l.lane
    on conflict (token, lane) do update
    set ids    = b.ids + excluded.ids,
        groups = b.groups || excluded.groups)
  select count(*), pg_snapshot_xmin(pg_current_snapshot()) into how_many, oldest
  from late;
  -- With the limit reached there may be more, and the floor stays.
  if how_many < inbox_late."limit" then
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
  end if;
  c.late_at := clock_timestamp();
  c.late_cost := c.late_at - began;
  return c;
end
$$;

-- What a claim holds, in the order in which it should be begun.
create or replace function turno.inbox_held(token uuid) returns setof turno.inbox_claimed
language sql
stable
as $$
  select
    i.id, i.id || '@' || b.token, i.attempts + 1, i.max_attempts, i.payload, i.key, i."group", i.lane % 4, i.pushed_at, b.until
  from turno.inbox_batch b
  cross join lateral unnest(b.ids) r
  cross join lateral generate_series(lower(r), upper(r) - 1) g(id)
  cross join lateral (
    select *
    from turno.inbox_item t
    where t.lane = b.lane
      and t.id = g.id
    offset 0) i
  where b.token = inbox_held.token
  order by b.lane, i.run_at is null, i.id
$$;

-- Adds items to a claim; one row of it for each lane.
create or replace function turno.inbox_hold(
  c      turno.inbox_cursor,
  lane   integer,
  ids    bigint[],
  groups text[],
  token  uuid,
  worker text,
  until  timestamptz
) returns void
language sql
as $$
  insert into turno.inbox_batch as b (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
  select
    inbox_hold.token, inbox_hold.lane, c.queue_id, c.n + 1, range_agg(int8range(i, i, '[]')),
    nullif(array_remove(inbox_hold.groups, null), '{}'), inbox_hold.worker, clock_timestamp(), inbox_hold.until
  from unnest(inbox_hold.ids) i
  having count(*) > 0
  on conflict (token, lane) do update
  set ids    = b.ids + excluded.ids,
      groups = b.groups || excluded.groups
$$;

-- The whole rule, when some items have become due by time, or by their group: priority after priority, first those,
-- then the line.
create or replace function turno.inbox_take_all(
  c       turno.inbox_cursor,
  "limit" integer,
  token   uuid,
  worker  text,
  until   timestamptz
) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at     timestamptz := clock_timestamp();
  due_from   timestamptz := case when now_at < c.due_at + '1 second' then c.due_from else '-infinity' end;
  due_left   boolean := false;
  left_over  integer := "limit";
  in_lane    integer;
  notes      bigint[];
  freed      text[];
  head_lanes integer[];
  head_ids   bigint[];
  head_groups text[];
  ids        bigint[];
  groups     text[];
  put_off    bigint;
  timed      bigint := 0;
  ending     bigint;
begin
  select array_agg(distinct f."group"), array_agg(f.id) into freed, notes
  from (
    select t.id, t."group"
    from turno.inbox_freed t
    where t.queue_id = c.queue_id
    order by t.id
    limit 10000) f;
  -- Those whose next one has been passed over, and is not in line any more.
  select array_agg(h.lane order by h.lane, h.id), array_agg(h.id order by h.lane, h.id), array_agg(h."group" order by h.lane, h.id)
  into head_lanes, head_ids, head_groups
  from unnest(freed) f("group")
  cross join lateral (
    select i.lane, i.id, i."group", i.run_at
    from turno.inbox_item i
    where i.lane / 4 = c.queue_id
      and i."group" = f."group"
    order by i.id
    limit 1) h
  where h.run_at is null
    and h.id <= c.at_id[h.lane % 4 + 1];

  for p in 0..3 loop
    exit when left_over <= 0;
    in_lane := c.queue_id * 4 + p;

    with due as materialized (
      select
        t.ctid as place, t."group",
        t."group" is null or turno.inbox_is_head(c.queue_id, t."group", t.id) as is_head,
        t."group" is not null and turno.inbox_is_busy(c.queue_id, t."group") as is_busy
      from turno.inbox_item t
      where t.lane = in_lane
        and t.run_at >= due_from
        and t.run_at <= now_at
      order by t.run_at, t.id
      limit left_over),
    -- Behind others of its group: back into line, or to wait for inbox_freed.
    parked as (
      update turno.inbox_item t
      set run_at = null
      from due d
      where t.ctid = d.place
        and not d.is_head
      returning 1),
    taken as (
      update turno.inbox_item t
      set run_at = 'infinity'
      from due d
      where t.ctid = d.place
        and d.is_head
        and not d.is_busy
      returning t.id, t."group")
    select array_agg(t.id), array_agg(t."group"), (select count(*) from parked), (select count(*) from due) >= left_over or due_left
    into ids, groups, put_off, due_left
    from taken t;
    perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take_all.token, inbox_take_all.worker, inbox_take_all.until);
    left_over := left_over - coalesce(cardinality(ids), 0);
    timed := timed + coalesce(cardinality(ids), 0) + put_off;

    if left_over > 0 and head_ids is not null then
      select array_agg(h.id), array_agg(h."group") into ids, groups
      from (
        select u.id, u."group"
        from unnest(head_lanes, head_ids, head_groups) u(lane, id, "group")
        where u.lane = in_lane
          and not turno.inbox_is_busy(c.queue_id, u."group")
          -- Whoever was at work on it then may have ended it meanwhile, or put it off.
          and exists (
            select from turno.inbox_item t
            where t.lane = u.lane
              and t.id = u.id
              and t.run_at is null)
        limit left_over) h;
      if ids is not null then
        perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take_all.token, inbox_take_all.worker, inbox_take_all.until);
        left_over := left_over - cardinality(ids);
      end if;
    end if;

    if left_over > 0 then
      with ready as materialized (
        select t.id, t."group"
        from turno.inbox_item t
        where t.lane = in_lane
          and t.id > c.at_id[p + 1]
          and t.run_at is null
          and (t."group" is null or not exists (
            select from turno.inbox_item e
            where e.lane / 4 = c.queue_id
              and e."group" = t."group"
              and e.id < t.id))
        order by t.id
        limit left_over)
      select
        array_agg(r.id), array_agg(r."group"),
        case
          when count(*) = left_over then max(r.id)
          else (select max(t.id) from turno.inbox_item t where t.lane = in_lane and t.id > c.at_id[p + 1])
        end
      into ids, groups, ending
      from ready r;
      perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take_all.token, inbox_take_all.worker, inbox_take_all.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      c.at_id[p + 1] := coalesce(ending, c.at_id[p + 1]);
    end if;
  end loop;

  -- A note is used up when its group has somebody at work, or a next one that will be found without it. One that is
  -- busy with others is kept: what they are could be something that came later. One that was written since is the next
  -- claim's.
  delete from turno.inbox_freed f
  where f.queue_id = c.queue_id
    and f.id = any (notes)
    and not (
      f."group" = any (coalesce(head_groups, '{}'))
      and not exists (
        select from turno.inbox_batch b
        where b.token = inbox_take_all.token
          and f."group" = any (b.groups)));
  if timed > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (c.queue_id, -timed);
  end if;
  if not due_left then
    -- Times may be committed a little late; those that are later still are found from the beginning, once a second.
    c.due_from := now_at - interval '1 second';
    c.due_at := case when due_from = '-infinity' then now_at else c.due_at end;
  end if;
  return c;
end
$$;

create or replace function turno.inbox_take(
  queue_id integer,
  worker   text,
  "limit"  integer,
  lease    interval,
  token    uuid
) returns setof turno.inbox_claimed
language plpgsql
as $$
#variable_conflict use_column
declare
  c       turno.inbox_cursor;
  old     turno.inbox_cursor;
  own     xid8;
  until   timestamptz;
  base    integer := inbox_take.queue_id * 4;
  look    boolean;
  waiting boolean;
  got     bigint;
begin
  perform pg_advisory_xact_lock(1953853038, inbox_take.queue_id); -- "turn" in ASCII
  -- Not before it is our turn: the same call may be under way still, if only its connection was lost.
  if exists (select from turno.inbox_batch b where b.token = inbox_take.token) then
    return query select * from turno.inbox_held(inbox_take.token);
    return;
  end if;
  select * into strict c
  from turno.inbox_cursor t
  where t.queue_id = inbox_take.queue_id
  order by t.n desc
  limit 1;
  old := c;
  until := clock_timestamp() + inbox_take.lease;
  look := c.floor_id <> c.at_id and clock_timestamp() >= c.late_at + 10 * c.late_cost;
  -- A number taken by somebody who came after our own number would be missed if we had it from before.
  if look and pg_current_xact_id_if_assigned() is null then
    own := pg_current_xact_id();
  end if;
  if c.expiry <= clock_timestamp() then
    c.expiry := turno.inbox_abandon(inbox_take.queue_id);
  end if;
  select
    exists (
      select from generate_series(0, 3) p
      cross join lateral (
        select from turno.inbox_item t
        where t.lane = base + p
          and t.run_at >= case when clock_timestamp() < c.due_at + '1 second' then c.due_from else '-infinity' end
          and t.run_at <= clock_timestamp()
        limit 1) d)
    or exists (
      select from turno.inbox_freed f
      where f.queue_id = inbox_take.queue_id)
  into waiting;

  if not waiting and not (look and clock_timestamp() >= c.late_at + '1 second') then
    -- The usual one: the line alone, in one statement.
    return query
    with ready as materialized (
      select i.*
      from generate_series(0, 3) p
      cross join lateral (
        select t.lane, t.id, t.attempts, t.max_attempts, t.payload, t.key, t."group", t.pushed_at
        from turno.inbox_item t
        where t.lane = base + p
          and t.id > c.at_id[p + 1]
          and t.run_at is null
          and (t."group" is null or not exists (
            select from turno.inbox_item e
            where e.lane / 4 = inbox_take.queue_id
              and e."group" = t."group"
              and e.id < t.id))
        order by t.id
        limit inbox_take."limit") i
      limit inbox_take."limit"),
    last_lane as (
      select max(r.lane) as lane, count(*) as got
      from ready r),
    reached as materialized (
      select array(
        select case
          when base + p > l.lane and l.got = inbox_take."limit" then c.at_id[p + 1]
          when base + p = l.lane and l.got = inbox_take."limit" then (select max(r.id) from ready r where r.lane = l.lane)
          else coalesce(
            (select max(t.id) from turno.inbox_item t where t.lane = base + p and t.id > c.at_id[p + 1]), c.at_id[p + 1])
        end
        from generate_series(0, 3) p) as at_id, l.got
      from last_lane l),
    held as (
      insert into turno.inbox_batch (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
      select
        inbox_take.token, r.lane, c.queue_id, c.n + 1, range_agg(int8range(r.id, r.id, '[]')),
        array_agg(r."group") filter (where r."group" is not null), inbox_take.worker, clock_timestamp(), until
      from ready r
      group by r.lane),
    moved as (
      insert into turno.inbox_cursor (
        queue_id, n, at_id, floor_id, floor_n, mark_id, mark_n, mark_xid, late_at, late_cost, due_from, due_at, expiry)
      select
        c.queue_id, c.n + 1, a.at_id, c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost,
        c.due_from, c.due_at, case when a.got > 0 then least(c.expiry, until) else c.expiry end
      from reached a
      where a.at_id <> c.at_id
         or c.expiry <> old.expiry
      returning queue_id),
    passed as (
      delete from turno.inbox_cursor t
      using moved m
      where t.queue_id = m.queue_id
        and t.n = c.n)
    select
      r.id, r.id || '@' || inbox_take.token, r.attempts + 1, r.max_attempts::integer, r.payload, r.key, r."group", r.lane - base,
      r.pushed_at, until
    from ready r;
    get diagnostics got = row_count;
    if got = inbox_take."limit" or not look then
      return;
    end if;
    -- There is room for what came late.
    select l.floor_id, l.floor_n, l.mark_id, l.mark_n, l.mark_xid, l.late_at, l.late_cost
    into c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost
    from turno.inbox_late(c, own, (inbox_take."limit" - got)::integer, inbox_take.token, inbox_take.worker, until) l;
    update turno.inbox_cursor t
    set floor_id  = c.floor_id,
        floor_n   = c.floor_n,
        mark_id   = c.mark_id,
        mark_n    = c.mark_n,
        mark_xid  = c.mark_xid,
        late_at   = c.late_at,
        late_cost = c.late_cost,
        expiry    = least(t.expiry, until)
    where t.queue_id = c.queue_id
      and t.n between c.n and c.n + 1;
    if got = 0 then
      return query select * from turno.inbox_held(inbox_take.token);
    else
      return query
      select h.*
      from turno.inbox_held(inbox_take.token) h
      where h.id <= c.at_id[h.priority + 1];
    end if;
    return;
  end if;

  got := 0;
  if look then
    c := turno.inbox_late(c, own, inbox_take."limit", inbox_take.token, inbox_take.worker, until);
    select count(*) into got
    from turno.inbox_held(inbox_take.token);
  end if;
  if got < inbox_take."limit" then
    c := turno.inbox_take_all(c, (inbox_take."limit" - got)::integer, inbox_take.token, inbox_take.worker, until);
  end if;
  c.n := old.n + 1;
  c.expiry := least(c.expiry, until);
  insert into turno.inbox_cursor
  values (c.*);
  delete from turno.inbox_cursor t
  where t.queue_id = old.queue_id
    and t.n = old.n;
  return query select * from turno.inbox_held(inbox_take.token);
end
$$;

create or replace function turno.inbox_claim(
  queue   text,
  worker  text     default 'sql',
  "limit" integer  default 1,
  lease   interval default '30 seconds',
  request uuid     default null,
  durable boolean  default true
) returns setof turno.inbox_claimed
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform turno.check_name('queue', inbox_claim.queue, 255);
  perform turno.check_name('worker', inbox_claim.worker, 255);
  perform turno.check_lease(inbox_claim.lease);
  if inbox_claim."limit" is null or inbox_claim."limit" not between 0 and 10000 then
    raise exception 'limit is %, and must be between 0 and 10000', coalesce(inbox_claim."limit"::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Claim fewer at a time, and more often.';
  end if;
  if inbox_claim."limit" = 0 then
    return;
  end if;
  -- A claim that a crash forgets is one that has ended: its item is claimable again, and its holder is told stale. So
  -- it need not wait for the disk, if the transaction is all its own.
  if not inbox_claim.durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- A queue that nobody has pushed to is empty, and claiming does not make it.
  return query
  select t.*
  from turno.inbox_queue_id(inbox_claim.queue) q(id)
  cross join lateral turno.inbox_take(
    q.id, inbox_claim.worker, inbox_claim."limit", inbox_claim.lease, coalesce(inbox_claim.request, gen_random_uuid())) t
  where q.id is not null;
end
$$;

comment on function turno.inbox_claim is
  'Claims up to limit items of a queue for one worker. Each comes with its claim, which every change to it has to present. Call it in a transaction of its own: other claims of the queue wait for it to end.';
