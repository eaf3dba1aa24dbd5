-- Purpose: records failed attempts, and gives back what was not begun.
-- Index:   as in inbox_settle.sql.

-- How long to wait after so many attempts: a second, doubled each time, an hour at the most, and not all at once.
create or replace function turno.inbox_backoff(attempts integer) returns interval
language sql
volatile
as $$
  select least(power(2, least(attempts, 30) - 1) * interval '1 second', interval '1 hour') * (0.5 + random())
$$;

create or replace function turno.inbox_fail_batch(
  ids       bigint[],
  tokens    uuid[],
  errors    text[],
  retry_ins interval[] default null,
  finals    boolean[]  default null,
  request   uuid       default null
) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  answer jsonb;
  places bigint[];
  queues integer[];
  groups text[];
  group_queues integer[];
begin
  if inbox_fail_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_fail_batch.request, '{done}');
    if answer is not null then
      return turno.inbox_told(answer);
    end if;
  end if;
  if exists (select from unnest(inbox_fail_batch.retry_ins) r where r < '0' or r > '3660 days') then
    raise exception 'retry_in must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for an exponential back-off.';
  end if;
  with hit as materialized (
    select h.*, i.attempts
    from turno.inbox_let_go(inbox_fail_batch.ids, inbox_fail_batch.tokens) h
    cross join lateral (
      select t.attempts
      from turno.inbox_item t
      where t.lane = h.lane
        and t.id = h.id
      offset 0) i),
  ended as materialized (
    select h.place, h.lane / 4 as queue_id, turno.inbox_end_attempt(
      h.lane, h.id, 'failed', turno.inbox_cut(coalesce(inbox_fail_batch.errors[h.place], '')), h.worker,
      case when not coalesce(inbox_fail_batch.finals[h.place], false)
        then clock_timestamp() + coalesce(inbox_fail_batch.retry_ins[h.place], turno.inbox_backoff(h.attempts + 1))
      end) as "group"
    from hit h)
  select
    array_agg(e.place), array_agg(distinct e.queue_id),
    array_agg(e.queue_id) filter (where e."group" is not null), array_agg(e."group") filter (where e."group" is not null)
  into places, queues, group_queues, groups
  from ended e;
  if groups is not null then
    perform turno.inbox_free(inbox_fail_batch.tokens, group_queues, groups);
  end if;
  perform turno.inbox_call(q)
  from unnest(queues) q;
  return turno.inbox_tell(
    inbox_fail_batch.request,
    row(
      coalesce(cardinality(places), 0),
      turno.inbox_stale(inbox_fail_batch.ids, inbox_fail_batch.tokens, places))::turno.inbox_settled);
end
$$;

comment on function turno.inbox_fail_batch is
  'Records failed attempts: each item is tried again later or, with no attempts left, set aside as failed.';

create or replace function turno.inbox_fail(
  claims   text[],
  error    text     default '',
  retry_in interval default null,
  final    boolean  default false,
  request  uuid     default null
) returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_fail.claims) p
  cross join lateral turno.inbox_fail_batch(
    p.ids, p.tokens, array_fill(inbox_fail.error, array[cardinality(p.ids)]),
    array_fill(inbox_fail.retry_in, array[cardinality(p.ids)]), array_fill(inbox_fail.final, array[cardinality(p.ids)]),
    inbox_fail.request) s
$$;

comment on function turno.inbox_fail is
  'Records a failed attempt at each item: tried again after retry_in (exponential if null), or set aside if final or out of attempts.';

create or replace function turno.inbox_give_back_batch(ids bigint[], tokens uuid[], request uuid default null)
returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  answer jsonb;
  places bigint[];
  queues integer[];
  groups text[];
  group_queues integer[];
begin
  if inbox_give_back_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_give_back_batch.request, '{done}');
    if answer is not null then
      return turno.inbox_told(answer);
    end if;
  end if;
  with hit as materialized (
    select h.place, i.at
    from turno.inbox_let_go(inbox_give_back_batch.ids, inbox_give_back_batch.tokens) h
    cross join lateral (
      select t.ctid as at
      from turno.inbox_item t
      where t.lane = h.lane
        and t.id = h.id
      offset 0) i),
  back as (
    update turno.inbox_item i
    set run_at = clock_timestamp()
    from hit h
    where i.ctid = h.at
    returning h.place, i.lane / 4 as queue_id, i."group"),
  counted as (
    insert into turno.inbox_tally (queue_id, timed)
    select b.queue_id, count(*)
    from back b
    group by b.queue_id)
  select
    array_agg(b.place), array_agg(distinct b.queue_id),
    array_agg(b.queue_id) filter (where b."group" is not null), array_agg(b."group") filter (where b."group" is not null)
  into places, queues, group_queues, groups
  from back b;
  if groups is not null then
    perform turno.inbox_free(inbox_give_back_batch.tokens, group_queues, groups);
  end if;
  perform turno.inbox_call(q)
  from unnest(queues) q;
  return turno.inbox_tell(
    inbox_give_back_batch.request,
    row(
      coalesce(cardinality(places), 0),
      turno.inbox_stale(inbox_give_back_batch.ids, inbox_give_back_batch.tokens, places))::turno.inbox_settled);
end
$$;

comment on function turno.inbox_give_back_batch is 'Gives items back that were not begun: claimable at once, and no attempt counted.';

create or replace function turno.inbox_give_back(claims text[], request uuid default null) returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_give_back.claims) p
  cross join lateral turno.inbox_give_back_batch(p.ids, p.tokens, inbox_give_back.request) s
$$;

comment on function turno.inbox_give_back is 'Gives items back that were not begun: claimable at once, and no attempt counted.';
