-- What operators and dashboards call: requeue, discard, reset, counts, lists.

-- Purpose: what a person does: revives or discards failed items, and takes items away from workers that hold them for too long.
-- Index:   inbox_failed_oldest, inbox_failed_queue, inbox_key_pkey, inbox_claim_queue.

-- Failed items of a queue: those with the ids or, if these are null, the oldest failures. Locked for the caller, who deletes
-- them. Two statements, so that each is along its own index, whatever the statistics say.
create or replace function turno.inbox_failed_places(q integer, ids bigint[], "limit" integer) returns setof tid
language plpgsql
as $$
begin
  if ids is null then
    return query
    select t.ctid
    from turno.inbox_failed t
    where t.queue_priority / 4 = q
    order by t.failed_at
    limit inbox_failed_places."limit"
    for update skip locked;
  else
    return query
    select t.ctid
    from turno.inbox_failed t
    where t.queue_priority / 4 = q
      and t.id = any (ids)
    limit inbox_failed_places."limit"
    for update skip locked;
  end if;
end
$$;

-- Revives; the outbox's events too, which are items of a queue of their own.
create or replace function turno.inbox_revive(q integer, ids bigint[], "limit" integer) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  many bigint;
begin
  with back as (
    delete from turno.inbox_failed f
    where f.ctid = any (array(select turno.inbox_failed_places(q, inbox_revive.ids, inbox_revive."limit")))
    returning *),
  pushed as (
    insert into turno.inbox_item (queue_priority, id, run_at, pushed_at, max_attempts, "group", key, errors, payload)
    select b.queue_priority, b.id, clock_timestamp(), b.pushed_at, b.max_attempts, b."group", b.key, b.errors, b.payload
    from back b
    returning 1)
  select count(*) into many
  from pushed;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, items, timed, failed)
    values (q, many, many, -many);
    perform turno.inbox_notify_by_id(q);
  end if;
  return many;
end
$$;

-- Deletes failed items. Their groups went on when they failed, and are not concerned. Their keys are kept as those of
-- completed items are, so that a repeated push is still a duplicate. Not for the outbox, whose keys may be parked.
create or replace function turno.inbox_forget_failed(q integer, ids bigint[], "limit" integer) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  many bigint;
begin
  with gone as (
    delete from turno.inbox_failed f
    where f.ctid = any (array(
      select turno.inbox_failed_places(q, inbox_forget_failed.ids, inbox_forget_failed."limit")))
    returning f.id, f.key),
  kept as (
    update turno.inbox_key k
    set done_at = clock_timestamp()
    from gone g
    where k.queue_id = q
      and k.key = g.key
      and k.id = g.id)
  select count(*) into many
  from gone g;
  insert into turno.inbox_tally (queue_id, failed)
  select q, -many
  where many > 0;
  return many;
end
$$;

-- Applies a person's decision to failed items, and records it. Event is requeued or discarded.
create or replace function turno.inbox_decide(
  event   text,
  queue   text,
  ids     bigint[],
  "limit" integer,
  "user"  text,
  reason  text
) returns bigint
language plpgsql
as $$
declare
  q    integer;
  many bigint;
begin
  perform turno.operator_action_check(inbox_decide."user", inbox_decide.reason);
  q := turno.inbox_queue_id(inbox_decide.queue);
  many := case inbox_decide.event
    when 'requeued' then turno.inbox_revive(q, inbox_decide.ids, inbox_decide."limit")
    when 'discarded' then turno.inbox_forget_failed(q, inbox_decide.ids, inbox_decide."limit")
  end;
  perform turno.operator_action_record(
    'inbox', inbox_decide.event, inbox_decide.queue, many, inbox_decide."user", inbox_decide.reason);
  return many;
end
$$;

create or replace function turno.inbox_requeue(
  queue   text,
  ids     bigint[] default null,
  "limit" integer  default 10000,
  "user"  text     default null,
  reason  text     default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return turno.inbox_decide(
    'requeued', inbox_requeue.queue, inbox_requeue.ids, inbox_requeue."limit", inbox_requeue."user",
    inbox_requeue.reason);
end
$$;

comment on function turno.inbox_requeue is
  'Revives failed items of a queue, those with the ids or all, with all their attempts before them. Answers how many; call again while it answers limit. The user and the reason go into the history.';

-- No default for ids: to discard all takes an explicit null.
create or replace function turno.inbox_discard(
  queue   text,
  ids     bigint[],
  "limit" integer default 10000,
  "user"  text    default null,
  reason  text    default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if starts_with(inbox_discard.queue, '$') then
    raise exception 'queue is %, and names that begin with $ are Turno''s own', quote_literal(inbox_discard.queue)
      using errcode = 'invalid_parameter_value', hint = 'Dead events are discarded with outbox_discard.';
  end if;
  return turno.inbox_decide(
    'discarded', inbox_discard.queue, inbox_discard.ids, inbox_discard."limit", inbox_discard."user",
    inbox_discard.reason);
end
$$;

comment on function turno.inbox_discard is
  'Deletes failed items of a queue, those with the ids or, if these are null, all. Their keys stay known as those of completed items do. Answers how many; call again while it answers limit. The user and the reason go into the history.';

create or replace function turno.inbox_reset(
  queue      text,
  older_than interval default '0',
  "limit"    integer  default 10000,
  "user"     text     default null,
  reason     text     default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.inbox_queue_id(inbox_reset.queue);
  b    turno.inbox_claim;
  groups text[];
  got  bigint;
  many bigint := 0;
begin
  perform turno.operator_action_check(inbox_reset."user", inbox_reset.reason);
  for b in
    select *
    from turno.inbox_claim t
    where t.queue_id = q
      and t.claimed_at <= clock_timestamp() - inbox_reset.older_than
    order by t.n
    for update skip locked
  loop
    exit when many >= inbox_reset."limit";
    with back as (
      update turno.inbox_item i
      set run_at = clock_timestamp()
      where i.ctid = any (array(select t.at from turno.inbox_places(b.queue_priority, b.ids) t))
      returning i."group")
    select count(*), array_agg(a."group") filter (where a."group" is not null) into got, groups
    from back a;
    if groups is not null then
      perform turno.inbox_free(null, array_fill(q, array[cardinality(groups)]), groups);
    end if;
    many := many + got;
    delete from turno.inbox_claim t
    where t.token = b.token
      and t.queue_priority = b.queue_priority;
  end loop;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (q, many);
    perform turno.inbox_notify_by_id(q);
  end if;
  perform turno.operator_action_record('inbox', 'reset', inbox_reset.queue, many, inbox_reset."user", inbox_reset.reason);
  return many;
end
$$;

comment on function turno.inbox_reset is
  'Takes away the claims of a queue that were made at least older_than ago: their items are claimable at once, and the claims stale. Answers how many items. The user and the reason go into the history.';

-- Purpose: how many items are in which state, from counters.
-- Index:   inbox_total_pkey, inbox_item_pkey from the cursor on, inbox_item_due, inbox_claim_queue.

-- Adds the single counts to the totals. If another call is doing so, this one does nothing.
create or replace function turno.inbox_compact_counters() returns void
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
      where t.queue_priority = inbox_scheduled.queue_id * 4 + p
        and t.run_at <= now_at
      limit 10001) d
    limit 10001) due;
  if many <= 10000 then
    return greatest(inbox_scheduled.timed - many, 0);
  end if;
  select count(*) into many
  from turno.inbox_item t
  where t.queue_priority between inbox_scheduled.queue_id * 4 and inbox_scheduled.queue_id * 4 + 3
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
    where t.queue_priority = inbox_oldest.queue_id * 4 + p
      and t.id > c.at_id[p + 1]
      and t.run_at is null
      and not exists (
        select from turno.inbox_claim b
        where b.queue_id = inbox_oldest.queue_id
          and b.n = turno.inbox_ahead()
          and b.ahead_id = t.id)
    order by t.id
    limit 1)
    union all
    (select t.run_at
    from turno.inbox_item t
    where t.queue_priority = inbox_oldest.queue_id * 4 + p
      -- A value for the whole statement, so that the index is read only up to it.
      and t.run_at <= (select clock_timestamp())
    order by t.run_at
    limit 1)
    union all
    -- Those that wait for their group, or were committed late: above the floor, if there are no groups. What waits for a time is
    -- passed, but not without an end.
    (select t.pushed_at
    from (
      select i.queue_priority, i.id, i.pushed_at
      from (
        select m.queue_priority, m.id, m.pushed_at, m.run_at
        from turno.inbox_item m
        where m.queue_priority = inbox_oldest.queue_id * 4 + p
          and m.id > case when (select q.grouped from turno.inbox_queue q where q.id = inbox_oldest.queue_id) then 0 else c.floor_id[p + 1] end
          and m.id <= c.at_id[p + 1]
        order by m.id
        limit 10000) i
      where i.run_at is null
      order by i.id
      limit 1000) t
    where not exists (
      select from turno.inbox_claim b
      where b.queue_id = inbox_oldest.queue_id
        and b.queue_priority = t.queue_priority
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
    perform turno.inbox_compact_counters();
  end if;
  return query
  with held as (
    select b.queue_id, sum(upper(r) - lower(r))::bigint as many
    from turno.inbox_claim b
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
  'Numbers of pending, scheduled, processing, completed and failed items of one queue, or of all whose names begin with prefix; no row for a queue to which nothing was ever pushed.';

-- Purpose: one page of a queue's items in one state, for operators.
-- Index:   inbox_item_pkey, inbox_failed_queue, inbox_done_at.

create or replace function turno.inbox_list(queue text, state text, after bigint default null, "limit" integer default 100)
returns setof turno.inbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.inbox_queue_id(inbox_list.queue);
begin
  if inbox_list.state = 'failed' then
    return query
    select
      f.id, 'failed', f.payload, f.key, f."group", f.queue_priority % 4, f.attempts::integer, f.abandoned::integer, f.worker, f.pushed_at,
      f.failed_at, f.errors
    from turno.inbox_failed f
    where f.queue_priority / 4 = q
      and f.id > coalesce(inbox_list.after, 0)
    order by f.id
    limit inbox_list."limit";
  elsif inbox_list.state = 'completed' then
    return query
    select
      i.id, 'completed', null::json, null::text, null::text, null::integer, 0, 0, d.worker, null::timestamptz, d.at, null::jsonb
    from turno.inbox_done d
    cross join lateral unnest(d.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
    where d.queue_id = q
      and (inbox_list.after is null or i.id < inbox_list.after)
    order by i.id desc
    limit inbox_list."limit";
  elsif inbox_list.state in ('pending', 'scheduled', 'processing') then
    return query
    select
      i.id, inbox_list.state, i.payload, i.key, i."group", i.queue_priority % 4, i.attempts::integer, i.abandoned::integer, b.worker,
      i.pushed_at,
      case inbox_list.state when 'processing' then b.claimed_at else coalesce(nullif(i.run_at, 'infinity'), i.pushed_at) end, i.errors
    from turno.inbox_item i
    left join lateral (
      select t.worker, t.claimed_at
      from turno.inbox_claim t
      where t.queue_id = q
        and t.queue_priority = i.queue_priority
        and t.ids @> i.id
        and t.until > clock_timestamp()
      limit 1) b on true
    where i.queue_priority between q * 4 and q * 4 + 3
      and i.id > coalesce(inbox_list.after, 0)
      and case
        when b.worker is not null then 'processing'
        when i.run_at > clock_timestamp() and i.run_at < 'infinity' then 'scheduled'
        else 'pending'
      end = inbox_list.state
    order by i.id
    limit inbox_list."limit";
  else
    raise exception 'state is %, and must be pending, scheduled, processing, completed or failed', coalesce(quote_literal(inbox_list.state), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name one of them.';
  end if;
end
$$;

comment on function turno.inbox_list is 'One page of the items of a queue that are in one state, in order of their ids; completed ones newest first.';

-- Purpose: the queue of each claim, for the authorization of a call that settles them; an ended claim has none.
-- Index:   inbox_claim_pkey, inbox_queue_pkey.

create or replace function turno.inbox_queues(ids bigint[], tokens uuid[]) returns table (place bigint, queue text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select a.place, q.name
  from unnest(inbox_queues.ids, inbox_queues.tokens) with ordinality a(id, token, place)
  cross join lateral (
    select t.queue_id
    from turno.inbox_claim t
    where t.token = a.token
      and t.ids @> a.id
    limit 1) b
  join turno.inbox_queue q on q.id = b.queue_id;
end
$$;

comment on function turno.inbox_queues is 'In which queue each claim is; a claim that is over is in none.';
