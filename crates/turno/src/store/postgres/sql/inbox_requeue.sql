-- Purpose: what a person does: revives or discards failed items, and takes items away from workers that hold them for too long.
-- Index:   inbox_failed_oldest, inbox_failed_queue, inbox_key_pkey, inbox_batch_queue.

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
    where t.lane / 4 = q
    order by t.failed_at
    limit inbox_failed_places."limit"
    for update skip locked;
  else
    return query
    select t.ctid
    from turno.inbox_failed t
    where t.lane / 4 = q
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
    insert into turno.inbox_item (lane, id, run_at, pushed_at, max_attempts, "group", key, errors, payload)
    select b.lane, b.id, clock_timestamp(), b.pushed_at, b.max_attempts, b."group", b.key, b.errors, b.payload
    from back b
    returning 1)
  select count(*) into many
  from pushed;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, items, timed, failed)
    values (q, many, many, -many);
    perform turno.inbox_call(q);
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
  perform turno.deed_check(inbox_decide."user", inbox_decide.reason);
  q := turno.inbox_queue_id(inbox_decide.queue);
  many := case inbox_decide.event
    when 'requeued' then turno.inbox_revive(q, inbox_decide.ids, inbox_decide."limit")
    when 'discarded' then turno.inbox_forget_failed(q, inbox_decide.ids, inbox_decide."limit")
  end;
  perform turno.deed_record(
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
  b    turno.inbox_batch;
  groups text[];
  got  bigint;
  many bigint := 0;
begin
  perform turno.deed_check(inbox_reset."user", inbox_reset.reason);
  for b in
    select *
    from turno.inbox_batch t
    where t.queue_id = q
      and t.claimed_at <= clock_timestamp() - inbox_reset.older_than
    order by t.n
    for update skip locked
  loop
    exit when many >= inbox_reset."limit";
    with back as (
      update turno.inbox_item i
      set run_at = clock_timestamp()
      where i.ctid = any (array(select t.at from turno.inbox_places(b.lane, b.ids) t))
      returning i."group")
    select count(*), array_agg(a."group") filter (where a."group" is not null) into got, groups
    from back a;
    if groups is not null then
      perform turno.inbox_free(null, array_fill(q, array[cardinality(groups)]), groups);
    end if;
    many := many + got;
    delete from turno.inbox_batch t
    where t.token = b.token
      and t.lane = b.lane;
  end loop;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (q, many);
    perform turno.inbox_call(q);
  end if;
  perform turno.deed_record('inbox', 'reset', inbox_reset.queue, many, inbox_reset."user", inbox_reset.reason);
  return many;
end
$$;

comment on function turno.inbox_reset is
  'Takes away the claims of a queue that were made at least older_than ago: their items are claimable at once, and the claims stale. Answers how many items. The user and the reason go into the history.';
