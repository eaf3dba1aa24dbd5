-- Purpose: finds what was committed late.
-- Index:   inbox_item_pkey between the floor and the cursor, inbox_batch_queue.

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
  with behind as materialized (
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
        and not held.ids @> t.id) i),
  late as materialized (
    select l.lane, l.id, l."group"
    from behind l
    where l."group" is null
       or (
         l.id in (
           select h.id
           from turno.inbox_heads(c.queue_id, (select array_agg(g."group") from behind g)) h)
         and l."group" not in (select b from turno.inbox_busy(c.queue_id) b))
    order by l.lane, l.id
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
