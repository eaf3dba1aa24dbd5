-- Purpose: how many items are in which state, from counters.
-- Index:   inbox_total_pkey, inbox_item_pkey from the cursor on, inbox_item_due, inbox_batch_queue.

-- Folds what was counted one by one into the totals. Whoever cannot at once leaves it to whoever does.
create or replace function turno.inbox_fold() returns void
language plpgsql
as $$
begin
  if not pg_try_advisory_xact_lock(1953853038, 0) then
    return;
  end if;
  with gone as (
    delete from turno.inbox_tally
    returning *),
  sums as (
    select g.queue_id, sum(g.items) as items, sum(g.timed) as timed, sum(g.completed) as completed, sum(g.failed) as failed
    from gone g
    group by g.queue_id)
  update turno.inbox_total t
  set items     = t.items + s.items,
      timed     = t.timed + s.timed,
      completed = t.completed + s.completed,
      failed    = t.failed + s.failed
  from sums s
  where t.queue_id = s.queue_id;
end
$$;

-- How many of the items that wait for a time still do. Counted from the shorter end, if one of them is short.
create or replace function turno.inbox_scheduled(queue_id integer, timed bigint) returns bigint
language plpgsql
stable
as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  many   bigint;
begin
  if inbox_scheduled.timed = 0 then
    return 0;
  end if;
  select count(*) into many
  from (
    select
    from generate_series(0, 3) p
    cross join lateral (
      select
      from turno.inbox_item t
      where t.lane = inbox_scheduled.queue_id * 4 + p
        and t.run_at <= now_at
      limit 10001) d
    limit 10001) due;
  if many <= 10000 then
    return greatest(inbox_scheduled.timed - many, 0);
  end if;
  select count(*) into many
  from turno.inbox_item t
  where t.lane between inbox_scheduled.queue_id * 4 and inbox_scheduled.queue_id * 4 + 3
    and t.run_at > now_at
    and t.run_at < 'infinity';
  return many;
end
$$;

-- Since when the oldest one that could be claimed has been waiting.
create or replace function turno.inbox_oldest(queue_id integer) returns timestamptz
language sql
stable
as $$
  select min(o.since)
  from (
    select *
    from turno.inbox_cursor t
    where t.queue_id = inbox_oldest.queue_id
    order by t.n desc
    limit 1) c
  cross join generate_series(0, 3) p
  cross join lateral (
    (select t.pushed_at as since
    from turno.inbox_item t
    where t.lane = inbox_oldest.queue_id * 4 + p
      and t.id > c.at_id[p + 1]
      and t.run_at is null
    order by t.id
    limit 1)
    union all
    (select t.run_at
    from turno.inbox_item t
    where t.lane = inbox_oldest.queue_id * 4 + p
      and t.run_at <= clock_timestamp()
    order by t.run_at
    limit 1)
    union all
    -- Those that wait for their group, or were committed late.
    (select t.pushed_at
    from (
      select i.lane, i.id, i.pushed_at
      from turno.inbox_item i
      where i.lane = inbox_oldest.queue_id * 4 + p
        and i.id <= c.at_id[p + 1]
        and i.run_at is null
      order by i.id
      limit 1000) t
    where not exists (
      select from turno.inbox_batch b
      where b.queue_id = inbox_oldest.queue_id
        and b.lane = t.lane
        and b.ids @> t.id)
    order by t.id
    limit 1)) o
$$;

create or replace function turno.inbox_stats(queue text default null, prefix text default '') returns setof turno.inbox_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  -- A standby, or a transaction that only reads, adds them up and leaves them.
  if current_setting('transaction_read_only') = 'off' then
    perform turno.inbox_fold();
  end if;
  return query
  with held as (
    select b.queue_id, sum(upper(r) - lower(r))::bigint as many
    from turno.inbox_batch b
    cross join lateral unnest(b.ids) r
    where b.until > clock_timestamp()
    group by b.queue_id),
  late as (
    select t.queue_id, sum(t.items) as items, sum(t.timed) as timed, sum(t.completed) as completed, sum(t.failed) as failed
    from turno.inbox_tally t
    group by t.queue_id),
  counted as (
    select
      q.id, q.name, t.items + coalesce(l.items, 0) as items, t.timed + coalesce(l.timed, 0) as timed,
      t.completed + coalesce(l.completed, 0) as completed, t.failed + coalesce(l.failed, 0) as failed,
      coalesce(h.many, 0) as processing
    from turno.inbox_queue q
    join turno.inbox_total t on t.queue_id = q.id
    left join late l on l.queue_id = q.id
    left join held h on h.queue_id = q.id
    where (q.name = inbox_stats.queue or inbox_stats.queue is null and not starts_with(q.name, '$'))
      and starts_with(q.name, inbox_stats.prefix)),
  -- Counters and claims are read at one moment, the clock at another; and the clock once, or the states would not add up.
  known as materialized (
    select c.*, least(turno.inbox_scheduled(c.id, c.timed::bigint), greatest(c.items - c.processing, 0)) as scheduled
    from counted c)
  select
    k.name, (k.items + k.completed + k.failed)::bigint, greatest(k.items - k.processing - k.scheduled, 0)::bigint, k.scheduled::bigint,
    least(k.processing, k.items)::bigint, k.completed::bigint, k.failed::bigint,
    case when k.items - k.processing - k.scheduled > 0
      then clock_timestamp() - coalesce(turno.inbox_oldest(k.id), clock_timestamp())
    end
  from known k
  order by k.name;
  if not found and inbox_stats.queue is not null then
    perform turno.check_name('queue', inbox_stats.queue, 255);
  end if;
end
$$;

comment on function turno.inbox_stats is
  'How many items of one queue, or of all whose names begin with prefix, are pending, scheduled, processing, completed and failed; no row of a queue to which nothing was ever pushed.';
