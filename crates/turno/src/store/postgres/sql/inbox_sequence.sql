-- Purpose: the numbers of items after the sequence has gone back: a data-only restore leaves it at its start, and logical replication
--          does not carry it. New items then have numbers that the cursors have passed, or that exist already.
-- Index:   inbox_item_pkey, inbox_failed_pkey, inbox_batch_queue.

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
        where t.lane = q.id * 4 + p
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
      from turno.inbox_batch b
      cross join lateral unnest(b.ids) r
      where b.queue_id = inbox_unreachable.queue_id
        and b.lane = inbox_unreachable.queue_id * 4 + p) held
    cross join lateral (
      select
      from turno.inbox_item t
      where t.lane = inbox_unreachable.queue_id * 4 + p
        and t.id <= c.floor_id[p + 1]
        and t.run_at is null
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
  q    integer;
  lost bigint;
  many bigint := 0;
begin
  perform turno.inbox_raise_sequence();
  for q in
    select t.id
    from turno.inbox_queue t
    order by t.id
  loop
    perform pg_advisory_xact_lock(1953853038, q);
    lost := turno.inbox_unreachable(q);
    if lost > 0 then
      perform turno.inbox_look_behind(q);
      many := many + lost;
    end if;
  end loop;
  return many;
end
$$;
