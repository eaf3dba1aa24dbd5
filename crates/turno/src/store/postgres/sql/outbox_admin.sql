-- Purpose: counts and lists of events for operators; requeue and discard of dead events.
-- Index:   inbox_failed_key, inbox_failed_group, inbox_item_due, outbox_sent_pkey, outbox_archive_id.

create or replace function turno.outbox_stats() returns turno.outbox_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  q       integer := turno.outbox_queue();
  i       turno.inbox_counts;
  blocked bigint;
begin
  select * into i
  from turno.inbox_stats('$outbox');
  select count(*) into blocked
  from turno.inbox_item t
  where t.queue_priority = q * 4 + 1
    and t.run_at = turno.outbox_blocked_until();
  -- Those that were blocked since the states were counted are still counted there.
  blocked := least(blocked, i.scheduled);
  return row(
    i.total, i.pending, i.scheduled - blocked, i.processing, i.completed, i.failed, blocked,
    (select count(*) from turno.outbox_parked), i.oldest_pending)::turno.outbox_counts;
end
$$;

comment on function turno.outbox_stats is
  'Numbers of events that are pending, scheduled, being published, dispatched, dead and blocked, and of parked keys.';

create or replace function turno.outbox_list(state text, after bigint default null, "limit" integer default 100)
returns setof turno.outbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.outbox_queue();
begin
  if outbox_list.state = 'dispatched' then
    -- Batch by batch, the newest first; a page has whole batches, and begins after the last one's number.
    return query
    with page as (
      select s.*, sum(cardinality(s.ids)) over (order by s.n desc) - cardinality(s.ids) as before
      from (
        select *
        from turno.outbox_sent t
        where t.n < coalesce(outbox_list.after, 9223372036854775807)
          and t.outcome = 'dispatched'
        order by t.n desc
        limit outbox_list."limit") s)
    select p.n, e.id, 'dispatched', null::text, null::json, 0, 0, p."by", null::timestamptz, p.at, null::jsonb
    from page p
    cross join lateral unnest(p.ids) with ordinality e(id, place)
    where p.before < outbox_list."limit"
    order by p.n desc, e.place desc;
  elsif outbox_list.state = 'blocked' then
    return query
    select
      i.id, turno.outbox_id(i.key), 'blocked', i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer,
      null::text, i.pushed_at, null::timestamptz, i.errors
    from turno.inbox_item i
    where i.queue_priority = q * 4 + 1
      and i.run_at = turno.outbox_blocked_until()
      and i.id > coalesce(outbox_list.after, 0)
    order by i.id
    limit outbox_list."limit";
  elsif outbox_list.state = 'scheduled' then
    return query
    select
      i.id, turno.outbox_id(i.key), 'scheduled', i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer,
      null::text, i.pushed_at, i.run_at, i.errors
    from turno.inbox_item i
    where i.queue_priority = q * 4 + 1
      and i.run_at > clock_timestamp()
      and i.run_at < turno.outbox_blocked_until()
      and i.id > coalesce(outbox_list.after, 0)
    order by i.id
    limit outbox_list."limit";
  elsif outbox_list.state in ('pending', 'processing', 'dead') then
    return query
    select
      i.id, turno.outbox_id(i.key), outbox_list.state, i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned,
      i.worker, i.pushed_at, i.at, i.errors
    from turno.inbox_list(
      '$outbox', case outbox_list.state when 'dead' then 'failed' else outbox_list.state end, outbox_list.after,
      outbox_list."limit") i;
  else
    raise exception 'state is %, and must be pending, scheduled, processing, dispatched, dead or blocked',
      coalesce(quote_literal(outbox_list.state), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name one of them.';
  end if;
end
$$;

comment on function turno.outbox_list is
  'One page of the events that are in one state, in the order of their emission; dispatched ones newest first, batch by batch.';

create or replace function turno.outbox_find(id uuid) returns setof turno.outbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.outbox_queue();
begin
  return query
  select
    f.id, turno.outbox_id(f.key), 'dead', f."group", f.payload, (f.attempts - f.abandoned)::integer, f.abandoned::integer, f.worker,
    f.pushed_at, f.failed_at, f.errors
  from turno.inbox_failed f
  where f.queue_priority / 4 = q
    and f.key = outbox_find.id::text;
  if found then
    return;
  end if;
  -- Nothing leaves the outbox before it was emitted, and the id says when that was; clocks may differ by a little.
  return query
  select
    coalesce(a.seq, s.n), outbox_find.id, s.outcome, a.key, a.event, 0, 0, s."by", a.emitted_at, s.at, null::jsonb
  from turno.outbox_sent s
  left join turno.outbox_archive a on a.id = outbox_find.id
  where s.ids @> array[outbox_find.id]
    and s.at > to_timestamp(
      case when substr(outbox_find.id::text, 15, 1) = '7'
        then ('x' || substr(replace(outbox_find.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0
        else 0
      end) - interval '1 day'
  order by s.n desc
  limit 1;
  if found then
    return;
  end if;
  return query
  select
    i.id, turno.outbox_id(i.key),
    case
      when i.run_at = turno.outbox_blocked_until() then 'blocked'
      when b.worker is not null then 'processing'
      when i.run_at > clock_timestamp() and i.run_at < 'infinity' then 'scheduled'
      else 'pending'
    end,
    i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer, b.worker, i.pushed_at,
    coalesce(b.claimed_at, nullif(nullif(i.run_at, 'infinity'), turno.outbox_blocked_until()), i.pushed_at), i.errors
  from turno.inbox_item i
  left join lateral (
    select t.worker, t.claimed_at
    from turno.inbox_claim t
    where t.queue_id = q
      and t.queue_priority = i.queue_priority
      and t.ids @> i.id
      and t.until > clock_timestamp()
    limit 1) b on true
  where i.queue_priority = q * 4 + 1
    and i.key = outbox_find.id::text
  limit 1;
end
$$;

comment on function turno.outbox_find is 'One event by its id, wherever it is; one that is still waiting is searched for one by one.';

-- Events of one parked key belong together: they are revived together, in their order.
create or replace function turno.outbox_requeue(
  ids     uuid[]  default null,
  "limit" integer default 10000,
  "user"  text    default null,
  reason  text    default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.outbox_queue();
  seqs bigint[];
  many bigint;
  got  bigint;
begin
  perform turno.operator_action_check(outbox_requeue."user", outbox_requeue.reason);
  seqs := array(
    select f.id
    from turno.inbox_failed f
    where f.queue_priority / 4 = q
      and (outbox_requeue.ids is null or f.key = any (outbox_requeue.ids::text[]))
    order by f.failed_at
    limit outbox_requeue."limit");
  with freed as (
    delete from turno.outbox_parked p
    using (
      select distinct f."group"
      from turno.inbox_failed f
      where f.id = any (seqs)) g
    where p.key = g."group"
    returning p.key)
  select seqs || array_agg(f.id) into seqs
  from freed p
  join turno.inbox_failed f on f.queue_priority / 4 = q and f."group" = p.key;
  many := case when seqs = '{}' then 0 else turno.inbox_revive(q, seqs, cardinality(seqs)) end;

  with revived as (
    update turno.inbox_item i
    set run_at   = clock_timestamp(),
        attempts = 0,
        abandoned = 0
    where i.ctid = any (array(
      select t.ctid
      from turno.inbox_item t
      where t.queue_priority = q * 4 + 1
        and t.run_at = turno.outbox_blocked_until()
        and (outbox_requeue.ids is null or t.key = any (outbox_requeue.ids::text[]))
      limit outbox_requeue."limit"
      for update skip locked))
    returning 1)
  select count(*) into got
  from revived;
  if got > 0 then
    perform turno.inbox_notify_by_id(q);
  end if;
  perform turno.operator_action_record('outbox', 'requeued', '', many + got, outbox_requeue."user", outbox_requeue.reason);
  return many + got;
end
$$;

comment on function turno.outbox_requeue is
  'Revives dead and blocked events, those with the ids or all, with all their attempts before them. What was parked behind one comes with it. Answers how many. The user and the reason go into the history.';

create or replace function turno.outbox_discard(
  ids    uuid[],
  "user" text default current_user,
  reason text default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      integer := turno.outbox_queue();
  dead   uuid[];
  blocked uuid[];
  keys   text[];
  groups text[];
begin
  perform turno.check_name('user', outbox_discard."user", 255);
  perform turno.operator_action_check(outbox_discard."user", outbox_discard.reason);
  with gone as (
    delete from turno.inbox_failed f
    where f.queue_priority / 4 = q
      and f.key = any (outbox_discard.ids::text[])
    returning f.key, f."group")
  select array_agg(turno.outbox_id(g.key)), array_agg(g."group") filter (where g."group" is not null) into dead, keys
  from gone g;
  with gone as (
    delete from turno.inbox_item i
    where i.ctid = any (array(
      select t.ctid
      from turno.inbox_item t
      where t.queue_priority = q * 4 + 1
        and t.run_at = turno.outbox_blocked_until()
        and t.key = any (outbox_discard.ids::text[])
      for update))
    returning i.key, i."group")
  select array_agg(turno.outbox_id(g.key)), array_agg(g."group") filter (where g."group" is not null) into blocked, groups
  from gone g;
  if dead is null and blocked is null then
    return 0;
  end if;
  insert into turno.inbox_tally (queue_id, items, timed, failed)
  values (
    q, -coalesce(cardinality(blocked), 0), -coalesce(cardinality(blocked), 0), -coalesce(cardinality(dead), 0));
  update turno.inbox_key k
  set done_at = clock_timestamp()
  where k.queue_id = q
    and k.key = any ((dead || blocked)::text[]);
  insert into turno.outbox_sent (at, outcome, "by", ids)
  values (clock_timestamp(), 'discarded', outbox_discard."user", dead || blocked);
  -- A key of which nothing is dead any more goes on.
  delete from turno.outbox_parked p
  where p.key = any (keys)
    and not exists (
      select from turno.inbox_failed f
      where f.queue_priority / 4 = q
        and f."group" = p.key);
  if groups is not null then
    perform turno.inbox_free(null, array_fill(q, array[cardinality(groups)]), groups);
  end if;
  perform turno.operator_action_record(
    'outbox', 'discarded', '', coalesce(cardinality(dead), 0) + coalesce(cardinality(blocked), 0),
    outbox_discard."user", outbox_discard.reason);
  return coalesce(cardinality(dead), 0) + coalesce(cardinality(blocked), 0);
end
$$;

comment on function turno.outbox_discard is
  'Gives dead or blocked events up: they are never published. What was blocked behind one goes on; what was parked waits to be requeued. Answers how many. The user and the reason go into the history.';

-- Purpose: the history of what an operator did to the rows of an application's own outbox table, which the operator's own statement
--          changes. Not operator_action_record: an operator must not write any history that it likes.
-- Index:   none.

create or replace function turno.outbox_table_record(event text, "table" text, many bigint, "user" text, reason text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if event is null or event not in ('requeued', 'discarded') then
    raise exception 'event is %, and must be requeued or discarded', coalesce(quote_literal(event), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Call this in the statement that changes the rows.';
  end if;
  perform turno.check_name('table', "table", 255);
  perform turno.operator_action_check("user", reason);
  perform turno.operator_action_record('outbox', event, "table", many, "user", reason);
end
$$;

comment on function turno.outbox_table_record is
  'Writes to the history that rows of an application''s own outbox table were requeued or discarded.';
