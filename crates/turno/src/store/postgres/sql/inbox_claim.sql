-- Purpose: claims items that are due: by priority; then those that have waited for a time, and then the others in order.
-- Index:   inbox_item_pkey from the cursor on, inbox_item_due, inbox_item_group; other plans are ruled out,
--          because an unanalysed table would invite them.
--
-- Claims of several items run one after the other (an advisory lock of the queue), and each leaves its cursor to the next. Claims of
-- one item are made side by side: see inbox_claim_one.sql. A claimable item behind the cursor has a due time (given back, failed,
-- abandoned) or is in inbox_freed (the next of a group); or its transaction committed late (inbox_claim_late).

-- What a claim holds, in the order in which it should be begun.
create or replace function turno.inbox_held(token uuid) returns setof turno.inbox_taken
language sql
stable
as $$
  select i.id, i.attempts + 1, i.max_attempts, i.payload, i.key, i."group", i.queue_priority % 4, i.pushed_at, b.until, i.abandoned::integer
  from turno.inbox_claim b
  cross join lateral unnest(b.ids) r
  cross join lateral (
    select *
    from turno.inbox_item t
    where t.queue_priority = b.queue_priority
      and t.id >= lower(r)
      and t.id < upper(r)
    offset 0) i
  where b.token = inbox_held.token
  order by b.queue_priority, i.run_at is null, i.id
$$;

-- How many a claim holds.
create or replace function turno.inbox_size(token uuid) returns integer
language plpgsql
stable
as $$
begin
  return (
    select coalesce(sum(upper(r) - lower(r)), 0)
    from turno.inbox_claim b
    cross join lateral unnest(b.ids) r
    where b.token = inbox_size.token);
end
$$;

-- How many bytes the payloads of a claim have.
create or replace function turno.inbox_bytes(token uuid) returns bigint
language sql
stable
as $$
  select coalesce(sum(octet_length(h.payload::text)), 0)
  from turno.inbox_held(inbox_bytes.token) h
$$;

-- How many more items a claim has room for; of a queue with large payloads, so many as fit whatever their sizes are.
create or replace function turno.inbox_room(heavy boolean, "limit" integer, max_bytes integer, item_bytes integer, token uuid)
returns integer
language plpgsql
stable
as $$
declare
  held integer := turno.inbox_size(inbox_room.token);
  fit  bigint;
begin
  if not inbox_room.heavy then
    return inbox_room."limit" - held;
  end if;
  fit := (inbox_room.max_bytes - turno.inbox_bytes(inbox_room.token)) / inbox_room.item_bytes;
  return least(inbox_room."limit" - held, case when held = 0 then greatest(fit, 1) else greatest(fit, 0) end);
end
$$;

-- Adds items to a claim; one row of it for each priority.
create or replace function turno.inbox_hold(
  c      turno.inbox_cursor,
  queue_priority   integer,
  ids    bigint[],
  groups text[],
  token  uuid,
  worker text,
  until  timestamptz
) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  if inbox_hold.ids is null then
    return;
  end if;
  insert into turno.inbox_claim as b (token, queue_priority, queue_id, n, ids, groups, worker, claimed_at, until)
  values (
    inbox_hold.token, inbox_hold.queue_priority, c.queue_id, c.n + 1, turno.inbox_id_ranges(inbox_hold.ids),
    nullif(array_remove(inbox_hold.groups, null), '{}'), inbox_hold.worker, clock_timestamp(), inbox_hold.until)
  on conflict (token, queue_priority) do update
  set ids    = b.ids + excluded.ids,
      groups = b.groups || excluded.groups;
end
$$;

-- The whole rule: priority after priority, first what has become due by time (if anything is waiting) or by its group (if
-- there are any), then the line. In small statements, which begin faster than a large one.
create or replace function turno.inbox_take(
  c       turno.inbox_cursor,
  priority_mask   integer,
  grouped boolean,
  waiting boolean,
  "limit" integer,
  token   uuid,
  worker  text,
  until   timestamptz,
  in_order boolean,
  ahead   bigint[]
) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at     timestamptz := clock_timestamp();
  due_from   timestamptz := turno.inbox_due_from(c.due_from, c.due_at, now_at);
  due_left   boolean := false;
  left_over  integer := "limit";
  in_queue_priority    integer;
  notes      bigint[];
  freed      text[];
  head_queue_priorities integer[];
  head_ids   bigint[];
  head_groups text[];
  begun      text[];
  at_first   bigint[] := c.at_id;
  ids        bigint[];
  groups     text[];
  put_off    bigint;
  timed      bigint := 0;
  ending     bigint;
begin
  if inbox_take.grouped then
    -- Not many more than there is room for: each of them is looked up.
    select array_agg(distinct n.id), array_agg(g) into notes, freed
    from (
      select f.id, f.groups, sum(cardinality(f.groups)) over (order by f.id) - cardinality(f.groups) as before
      from (
        select *
        from turno.inbox_freed t
        where t.queue_id = c.queue_id
        order by t.id
        limit 1000) f) n
    cross join lateral unnest(n.groups) g
    where n.before < inbox_take."limit";
    select array_agg(h.queue_priority), array_agg(h.id), array_agg(h."group") into head_queue_priorities, head_ids, head_groups
    from (
      select *
      from turno.inbox_heads(c.queue_id, freed) t
      where turno.inbox_is_ready(t.run_at)
        and t."group" not in (select b from turno.inbox_busy(c.queue_id) b)
      order by t.queue_priority, t.id) h;
  end if;

  for p in 0..3 loop
    exit when left_over <= 0;
    continue when inbox_take.priority_mask & (1 << p) = 0;
    in_queue_priority := c.queue_id * 4 + p;

    if inbox_take.waiting then
      with due as materialized (
        select t.ctid as place, t."group", not inbox_take.in_order or t."group" is null or t.id = h.id as is_head
        from turno.inbox_item t
        left join lateral turno.inbox_heads(c.queue_id, array[t."group"]) h on inbox_take.in_order and t."group" is not null
        where t.queue_priority = in_queue_priority
          and t.run_at >= due_from
          and turno.inbox_is_due(t.run_at, now_at)
          -- The first of a group that is busy with others waits, and does not stand in the way.
          and not (t.id = h.id and t."group" in (select b from turno.inbox_busy(c.queue_id) b)) is true
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
        returning t.id, t."group")
      select array_agg(t.id), array_agg(t."group"), (select count(*) from parked), (select count(*) from due) >= left_over or due_left
      into ids, groups, put_off, due_left
      from taken t;
      perform turno.inbox_hold(c, in_queue_priority, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      timed := timed + coalesce(cardinality(ids), 0) + put_off;
    end if;

    if left_over > 0 and head_ids is not null then
      select array_agg(h.id), array_agg(h."group") into ids, groups
      from (
        select u.id, u."group"
        from unnest(head_queue_priorities, head_ids, head_groups) u(queue_priority, id, "group")
        where u.queue_priority = in_queue_priority
          -- Those in front of the cursor are in line.
          and u.id <= c.at_id[p + 1]
        limit left_over) h;
      perform turno.inbox_hold(c, in_queue_priority, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      begun := begun || groups;
    end if;

    if left_over > 0 then
      select l.ids, l.groups, l.ending into ids, groups, ending
      from turno.inbox_next_ready(
        in_queue_priority, c.at_id[p + 1], left_over, freed, head_ids, inbox_take.in_order, inbox_take.ahead) l;
      perform turno.inbox_hold(c, in_queue_priority, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      c.at_id[p + 1] := ending;
    end if;
  end loop;

  if notes is not null then
    -- One that was written since is the next claim's.
    delete from turno.inbox_freed f
    where f.queue_id = c.queue_id
      and f.id = any (notes);
  end if;
  if left_over <= 0 and head_ids is not null then
    -- What there was no room for is noted again.
    insert into turno.inbox_freed (queue_id, groups)
    select c.queue_id, array_agg(u."group")
    from unnest(head_queue_priorities, head_ids, head_groups) with ordinality u(queue_priority, id, "group", place)
    where u.id <= at_first[u.queue_priority % 4 + 1]
      and u."group" not in (select unnest(begun))
    group by u.place / 100;
  end if;
  if timed > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (c.queue_id, -timed);
  end if;
  if inbox_take.waiting and not due_left then
    -- Times may be committed a little late; those that are later still are found from the beginning, once a second.
    c.due_from := now_at - interval '1 second';
    c.due_at := case when due_from = '-infinity' then now_at else c.due_at end;
  end if;
  return c;
end
$$;

-- Claims for one worker, under a token that the caller chose: the same call repeated is answered the same.
--
-- Not in order, several of one group are claimed together, and by others at once. Such a claim has to be settled as a
-- whole: what keeps a group busy is the claim, not the item.
--
-- With "later", a claim that would have to wait long for another transaction answers one row without an id, and has claimed
-- nothing. So a connection pool is not used up by callers that wait for one open transaction.
--
-- The payloads of one claim have max_bytes together at the most; one item is claimed whatever its size. Where the queue's
-- payloads are so small that the limit cannot be reached, sizes are not looked at. Elsewhere items are claimed in pieces that fit
-- in any case, and 1000 of them at the most.
create or replace function turno.inbox_claim_batch(
  queue   text,
  worker  text,
  "limit" integer,
  lease   interval,
  token   uuid,
  durable boolean,
  in_order boolean default true,
  later   boolean default false,
  max_bytes integer default 16777216
) returns setof turno.inbox_taken
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q       record;
  at      record;
  c       turno.inbox_cursor;
  old     turno.inbox_cursor;
  own     xid8;
  now_at  timestamptz;
  until   timestamptz;
  base    integer;
  look    boolean;
  overdue boolean;
  waiting boolean;
  p       integer;
  got     bigint;
  room    integer;
  heavy   boolean;
  held    integer;
  ahead   bigint[];
  settings jsonb;
  one     turno.inbox_taken;
  commits text := current_setting('synchronous_commit');
begin
  perform turno.inbox_claim_check(inbox_claim_batch.queue, inbox_claim_batch.worker, inbox_claim_batch.lease);
  if inbox_claim_batch."limit" is null or inbox_claim_batch."limit" not between 0 and 10000 then
    raise exception 'limit is %, and must be between 0 and 10000', coalesce(inbox_claim_batch."limit"::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Claim fewer at a time, and more often.';
  end if;
  -- A claim that is lost in a crash has ended: its items can be claimed again, and for its holder it is stale. So the commit
  -- need not wait for the disk, if the transaction does nothing else.
  if not inbox_claim_batch.durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if inbox_claim_batch."limit" = 1 and not starts_with(inbox_claim_batch.queue, '$') then
    one := turno.inbox_claim_one(
      inbox_claim_batch.queue, inbox_claim_batch.worker, inbox_claim_batch.lease, inbox_claim_batch.token, true,
      inbox_claim_batch.later);
    if one.id > 0 then
      return next one;
    elsif one.id = -1 then
      return next null::turno.inbox_taken;
    end if;
    if one.id is distinct from 0 then
      return;
    end if;
  end if;
  -- A queue without a push is empty, and a claim does not create it.
  select t.id, k.priority_mask, k.grouped, k.bytes into q
  from turno.inbox_queue t
  cross join lateral (
    select
      coalesce(bit_or(d.priority_mask), 0) as priority_mask, coalesce(bool_or(d.grouped), false) as grouped,
      coalesce(max(d.bytes), 1024) as bytes
    from turno.inbox_kind d
    where d.queue_id = t.id) k
  where t.name = inbox_claim_batch.queue;
  if not found or inbox_claim_batch."limit" = 0 then
    return;
  end if;
  base := q.id * 4;
  heavy := inbox_claim_batch."limit"::bigint * q.bytes > inbox_claim_batch.max_bytes;
  if heavy then
    inbox_claim_batch."limit" := least(inbox_claim_batch."limit", 1000);
  end if;
  if not turno.inbox_wait_turn(inbox_claim_batch.queue, false, inbox_claim_batch.later) then
    return next null::turno.inbox_taken;
    return;
  end if;
  -- Not in the statement, which would then read what is due later, too.
  now_at := clock_timestamp();
  -- Not before it is our turn: the same call may be under way still, if only its connection was lost.
  select
    exists (select from turno.inbox_claim b where b.token = inbox_claim_batch.token) as again,
    exists (
      select from generate_series(0, 3) p
      cross join lateral (
        select from turno.inbox_item t
        where q.priority_mask & (1 << p) <> 0
          and t.queue_priority = base + p
          and t.run_at >= turno.inbox_due_from((l.cursor).due_from, (l.cursor).due_at, now_at)
          and turno.inbox_is_due(t.run_at, now_at)
        limit 1) d) as waiting,
    exists (select from turno.inbox_freed f where f.queue_id = q.id)
    or exists (
      select from generate_series(0, 3) p
      cross join lateral (
        select from turno.inbox_item t
        where t.queue_priority = base + p
          and t.id > (l.cursor).at_id[p + 1]
        limit 1) i) as in_line,
    (select i.last_value from turno.inbox_item_id i) as last_id,
    -- Not before it is our turn, either: they hold for every claim that begins after a change.
    (select t.settings from turno.inbox_queue t where t.id = q.id) as settings,
    a.ids as ahead, a.until as ahead_until, l.cursor
  into strict at
  from (
    select t as cursor
    from turno.inbox_cursor t
    where t.queue_id = q.id
    order by t.n desc
    limit 1) l
  -- What is claimed in front of the cursor is passed over. Not as a function, which would be started for each claim.
  cross join lateral (
    select coalesce(array_agg(b.ahead_id), '{}') as ids, min(b.until) as until
    from turno.inbox_claim b
    where b.queue_id = q.id
      and b.n = turno.inbox_ahead()
      and b.ahead_id > turno.inbox_first_at((l.cursor).at_id, q.priority_mask)) a;
  if at.again then
    return query select * from turno.inbox_held(inbox_claim_batch.token);
    return;
  end if;
  c := at.cursor;
  if at.last_id < greatest(c.at_id[1], c.at_id[2], c.at_id[3], c.at_id[4]) then
    -- The sequence has gone back, and items may have been pushed below the cursor.
    perform turno.inbox_raise_sequence();
    c := turno.inbox_look_behind(q.id);
    at.in_line := true;
  end if;
  waiting := at.waiting;
  ahead := at.ahead;
  old := c;
  until := clock_timestamp() + inbox_claim_batch.lease;
  -- Before the cursor passes these claims.
  c.expiry := least(c.expiry, at.ahead_until);
  c.expiry := turno.inbox_first_end(c, until);
  if c.late_at > clock_timestamp() then
    -- The clock was set back.
    c.late_at := '-infinity';
  end if;
  look := turno.inbox_may_look(c.floor_id <> c.at_id, c.late_at, c.late_cost, clock_timestamp());
  -- Assigned only now: with an id from earlier in the transaction, an item of a later transaction could be missed.
  if look and pg_current_xact_id_if_assigned() is null then
    own := pg_current_xact_id();
  end if;
  if turno.inbox_claim_has_expired(c.expiry, clock_timestamp()) then
    c.expiry := turno.inbox_abandon(q.id);
    waiting := true;
  end if;
  if not (at.in_line or waiting or look) and c.expiry = old.expiry then
    -- As most claims of a worker that looks at short intervals.
    return;
  end if;
  settings := at.settings;
  if settings is not null then
    -- What is claimed counts, so a crash must not forget it.
    perform set_config('synchronous_commit', commits, true);
    now_at := clock_timestamp();
    inbox_claim_batch."limit" := turno.inbox_admitted(q.id, settings, inbox_claim_batch."limit", now_at);
    if inbox_claim_batch."limit" = 0 then
      if c is distinct from old then
        perform turno.inbox_move_cursor(old, c);
      end if;
      return;
    end if;
  end if;
  overdue := look and clock_timestamp() >= c.late_at + '1 second';
  if inbox_claim_batch."limit" > 16 and not (heavy or waiting or q.grouped or overdue or settings is not null) then
    -- Many, and nothing but the line: all of it in one statement, which reads each item once.
    return query
    with ready as materialized (
      select i.*
      from generate_series(0, 3) p
      cross join lateral (
        select t.queue_priority, t.id, t.attempts, t.max_attempts, t.payload, t.key, t."group", t.pushed_at, t.abandoned
        from turno.inbox_item t
        where t.queue_priority = base + p
          and t.id > c.at_id[p + 1]
          and turno.inbox_is_ready(t.run_at)
          and t.id <> all (ahead)
          -- In the rare case that the queue has its first groups since we looked.
          and (
            t."group" is null
            or not inbox_claim_batch.in_order
            or t.id = (select h.id from turno.inbox_heads(q.id, array[t."group"]) h)
              and t."group" not in (select b from turno.inbox_busy(q.id) b))
        order by t.id
        limit inbox_claim_batch."limit") i
      limit inbox_claim_batch."limit"),
    last_queue_priority as (
      select max(r.queue_priority) as queue_priority, count(*) as got
      from ready r),
    reached as materialized (
      select array(
        select case
          when base + p > l.queue_priority and l.got = inbox_claim_batch."limit" then c.at_id[p + 1]
          when base + p = l.queue_priority and l.got = inbox_claim_batch."limit" then (select max(r.id) from ready r where r.queue_priority = l.queue_priority)
          else coalesce(
            (select t.id from turno.inbox_item t where t.queue_priority = base + p and t.id > c.at_id[p + 1] order by t.id desc limit 1),
            c.at_id[p + 1])
        end
        from generate_series(0, 3) p) as at_id, l.got
      from last_queue_priority l),
    held as (
      insert into turno.inbox_claim (token, queue_priority, queue_id, n, ids, groups, worker, claimed_at, until)
      select
        inbox_claim_batch.token, r.queue_priority, c.queue_id, c.n + 1, turno.inbox_id_ranges(array_agg(r.id)),
        array_agg(r."group") filter (where r."group" is not null), inbox_claim_batch.worker, clock_timestamp(), until
      from ready r
      group by r.queue_priority),
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
      r.id, r.attempts + 1, r.max_attempts::integer, r.payload, r.key, r."group", r.queue_priority - base, r.pushed_at, until,
      r.abandoned::integer
    from ready r;
    get diagnostics got = row_count;
    if got = inbox_claim_batch."limit" or not look then
      return;
    end if;
    -- There is room for what came late.
    select l.floor_id, l.floor_n, l.mark_id, l.mark_n, l.mark_xid, l.late_at, l.late_cost
    into c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost
    from turno.inbox_claim_late(c, own, (inbox_claim_batch."limit" - got)::integer, inbox_claim_batch.token, inbox_claim_batch.worker, until) l;
    update turno.inbox_cursor t
    set floor_id  = c.floor_id,
        floor_n   = c.floor_n,
        mark_id   = c.mark_id,
        mark_n    = c.mark_n,
        mark_xid  = c.mark_xid,
        late_at   = c.late_at,
        late_cost = c.late_cost,
        -- A look that has claimed nothing has no end that others would have to wait for.
        expiry    = case
          when exists (select from turno.inbox_claim b where b.token = inbox_claim_batch.token) then least(t.expiry, until)
          else t.expiry
        end
    where t.queue_id = c.queue_id
      and t.n between c.n and c.n + 1;
    if got = 0 then
      return query select * from turno.inbox_held(inbox_claim_batch.token);
    else
      return query
      select h.*
      from turno.inbox_held(inbox_claim_batch.token) h
      where h.id <= c.at_id[h.priority + 1];
    end if;
    return;
  end if;

  if not (heavy or waiting or q.grouped or overdue or settings is not null) and q.priority_mask in (1, 2, 4, 8) then
    -- A few, and nothing but one line: in small statements, which begin faster than a large one.
    p := case q.priority_mask when 1 then 0 when 2 then 1 when 4 then 2 else 3 end;
    select
      array_agg(s.id) as ids, bool_or(s."group" is not null) as grouped,
      -- Not as max(), which reads all of them after statistics that say that there are few.
      (select t.id from turno.inbox_item t where t.queue_priority = base + p and t.id > c.at_id[p + 1] order by t.id desc limit 1) as furthest
    into at
    from (
      select t.id, t."group"
      from turno.inbox_item t
      where t.queue_priority = base + p
        and t.id > c.at_id[p + 1]
        and turno.inbox_is_ready(t.run_at)
        and t.id <> all (ahead)
      order by t.id
      limit inbox_claim_batch."limit") s;
    got := coalesce(cardinality(at.ids), 0);
    if not coalesce(at.grouped, false) and (got = inbox_claim_batch."limit" or not look) then
      if at.furthest is null and c.expiry = old.expiry then
        return;
      end if;
      c.at_id[p + 1] := case when got = inbox_claim_batch."limit" then at.ids[got] else coalesce(at.furthest, c.at_id[p + 1]) end;
      if got > 0 then
        c.expiry := least(c.expiry, until);
      end if;
      perform turno.inbox_move_cursor(old, c);
      if got > 0 then
        insert into turno.inbox_claim (token, queue_priority, queue_id, n, ids, worker, claimed_at, until)
        values (
          inbox_claim_batch.token, base + p, q.id, old.n + 1, turno.inbox_id_ranges(at.ids), inbox_claim_batch.worker,
          clock_timestamp(), until);
        return query
        select
          t.id, t.attempts + 1, t.max_attempts::integer, t.payload, t.key, t."group", p, t.pushed_at, until,
          t.abandoned::integer
        from unnest(at.ids) u(id)
        cross join lateral (
          select *
          from turno.inbox_item i
          where i.queue_priority = base + p
            and i.id = u.id
          offset 0) t
        order by t.id;
      end if;
      return;
    end if;
  end if;

  room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  if overdue then
    c := turno.inbox_claim_late(c, own, room, inbox_claim_batch.token, inbox_claim_batch.worker, until);
    room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  end if;
  while room > 0 loop
    held := turno.inbox_size(inbox_claim_batch.token);
    c := turno.inbox_take(
      c, q.priority_mask, q.grouped, waiting, room, inbox_claim_batch.token, inbox_claim_batch.worker, until,
      inbox_claim_batch.in_order, ahead);
    -- The end of the line.
    exit when not heavy or turno.inbox_size(inbox_claim_batch.token) - held < room;
    room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  end loop;
  room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  if room > 0 and look and not overdue then
    -- There is room for what came late, up to where the cursor was.
    select l.floor_id, l.floor_n, l.mark_id, l.mark_n, l.mark_xid, l.late_at, l.late_cost
    into c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost
    from turno.inbox_claim_late(old, own, room, inbox_claim_batch.token, inbox_claim_batch.worker, until) l;
  end if;
  room := inbox_claim_batch."limit" - turno.inbox_size(inbox_claim_batch.token);
  if c is distinct from old or room < inbox_claim_batch."limit" then
    if room < inbox_claim_batch."limit" then
      c.expiry := least(c.expiry, until);
    end if;
    perform turno.inbox_move_cursor(old, c);
  end if;
  if room < inbox_claim_batch."limit" then
    if settings ? 'rate' then
      perform turno.inbox_rate_take(q.id, settings->'rate', now_at, inbox_claim_batch."limit" - room);
    end if;
    if settings ? 'max_running' then
      update turno.inbox_claim b
      set limited = true
      where b.token = inbox_claim_batch.token;
    end if;
    return query select * from turno.inbox_held(inbox_claim_batch.token);
  end if;
end
$$;

comment on function turno.inbox_claim_batch is
  'As inbox_claim, with a token of the caller''s choosing, by which all the claims are known.';

create or replace function turno.inbox_claim(
  queue   text,
  worker  text     default 'sql',
  "limit" integer  default 1,
  lease   interval default '30 seconds',
  request uuid     default null
) returns setof turno.inbox_claimed
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  own uuid := coalesce(inbox_claim.request, gen_random_uuid());
  t   turno.inbox_taken;
begin
  if inbox_claim."limit" = 1 and not starts_with(inbox_claim.queue, '$') then
    -- The name of a queue that exists was checked when it was made.
    if not (turno.is_name(inbox_claim.worker, 255) and inbox_claim.lease between '1 millisecond' and '1 day') then
      perform turno.inbox_claim_check(inbox_claim.queue, inbox_claim.worker, inbox_claim.lease);
    end if;
    t := turno.inbox_claim_one(
      inbox_claim.queue, inbox_claim.worker, inbox_claim.lease, own, inbox_claim.request is not null, false);
    if t.id > 0 then
      return next row(
        t.id, t.id || '@' || own, t.attempt, t.max_attempts, t.payload, t.key, t."group", t.priority, t.pushed_at, t.expires_at
      )::turno.inbox_claimed;
    end if;
    if t.id is distinct from 0 then
      return;
    end if;
  end if;
  return query
  select b.id, b.id || '@' || own, b.attempt, b.max_attempts, b.payload, b.key, b."group", b.priority, b.pushed_at, b.expires_at
  from turno.inbox_claim_batch(inbox_claim.queue, inbox_claim.worker, inbox_claim."limit", inbox_claim.lease, own, true) b;
end
$$;

comment on function turno.inbox_claim is
  'Claims up to limit items of a queue for one worker. Each comes with its claim, which every change to it has to present. Call it in a transaction of its own: claims of more than one item wait for it to end.';
