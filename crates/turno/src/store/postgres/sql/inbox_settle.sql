-- How a claim ends or is extended: complete, give back, fail, extend.

-- Purpose: ends what a worker holds: the one place that decides whether a claim is still right.
-- Index:   inbox_claim_pkey, inbox_item_pkey. Rows are looked up one by one (lateral, offset 0) and changed where they
--          were found (ctid): so no statistics can turn a join round, and scan a table for a handful of rows.

-- Takes items out of their claims, and answers those that were in them. A claim that has expired, but was not
-- taken over, is still valid.
create or replace function turno.inbox_unclaim(ids bigint[], tokens uuid[])
returns table (place bigint, id bigint, token uuid, queue_priority integer, worker text)
language plpgsql
as $$
#variable_conflict use_column
declare
  claim record;
begin
  -- Locked first, and looked at by the next statement, which sees them as they are now.
  for claim in
    select b.queue_id, b.limited
    from turno.inbox_claim b
    where b.token = any (inbox_unclaim.tokens)
    order by b.token, b.queue_priority
    for update
  loop
    -- Another item may begin.
    if claim.limited then
      perform turno.inbox_notify_by_id(claim.queue_id);
    end if;
  end loop;
  return query
  with asked as (
    select distinct on (a.id, a.token) a.place, a.id, a.token
    from unnest(inbox_unclaim.ids, inbox_unclaim.tokens) with ordinality a(id, token, place)
    order by a.id, a.token, a.place),
  batch as materialized (
    select b.ctid as at, b.token, b.queue_priority, b.ids, b.worker
    from turno.inbox_claim b
    where b.token = any (inbox_unclaim.tokens)),
  hit as materialized (
    select a.place, a.id, a.token, b.at, b.queue_priority, b.worker
    from asked a
    join batch b on b.token = a.token and b.ids @> a.id),
  gone as materialized (
    select h.at, turno.inbox_id_ranges(array_agg(h.id)) as ids
    from hit h
    group by h.at),
  shrunk as (
    update turno.inbox_claim b
    set ids = b.ids - g.ids
    from gone g
    where b.ctid = g.at
      and not b.ids <@ g.ids),
  ended as (
    delete from turno.inbox_claim b
    using gone g
    where b.ctid = g.at
      and b.ids <@ g.ids)
  select h.place, h.id, h.token, h.queue_priority, h.worker
  from hit h;
end
$$;

-- Those of the claims whose places are not among the ones that were right.
create or replace function turno.inbox_stale(ids bigint[], tokens uuid[], right_places bigint[]) returns text[]
language sql
immutable
as $$
  select coalesce(array_agg(a.id || '@' || a.token order by a.place), '{}')
  from unnest(ids, tokens) with ordinality a(id, token, place)
  where a.place <> all (coalesce(right_places, '{}'))
$$;

-- Every answer that can be repeated is one of these two.
create or replace function turno.inbox_stored_answer(answer jsonb) returns turno.inbox_settled
language sql
immutable
as $$
  select row((answer->>'done')::bigint, array(select jsonb_array_elements_text(answer->'stale')))::turno.inbox_settled
$$;

create or replace function turno.inbox_store_answer(request uuid, settled turno.inbox_settled) returns turno.inbox_settled
language plpgsql
as $$
begin
  perform turno.inbox_answer(request, jsonb_build_object('done', settled.done, 'stale', to_jsonb(settled.stale)));
  return settled;
end
$$;

-- Ends one item that is done, if its claim has no other. Answers whether that was so. In simple statements: one that does it all
-- costs more. Without a request, the call is not one that is repeated.
create or replace function turno.inbox_complete_one(id bigint, token uuid, request uuid) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  alone int8multirange := int8multirange(int8range(inbox_complete_one.id, inbox_complete_one.id, '[]'));
  claim record;
  item  record;
begin
  delete from turno.inbox_claim b
  where b.token = inbox_complete_one.token
    and b.ids = alone
  returning b.queue_priority, b.queue_id, b.worker, b.limited into claim;
  if not found then
    return false;
  end if;
  delete from turno.inbox_item t
  where t.queue_priority = claim.queue_priority
    and t.id = inbox_complete_one.id
  returning t.key, t."group" into item;
  insert into turno.inbox_tally (queue_id, items, completed)
  values (claim.queue_id, -1, 1);
  -- A call that is not repeated needs no number of its own, which is slow to make.
  insert into turno.inbox_done as d (request, token, queue_id, at, worker, ids)
  values (
    coalesce(inbox_complete_one.request, inbox_complete_one.token), inbox_complete_one.token, claim.queue_id, clock_timestamp(),
    claim.worker, alone)
  on conflict (request, token, queue_id) do update
  set ids = d.ids + excluded.ids;
  if item.key is not null then
    update turno.inbox_key k
    set done_at = clock_timestamp()
    where k.queue_id = claim.queue_id
      and k.key = item.key;
  end if;
  if item."group" is not null then
    perform turno.inbox_free(array[inbox_complete_one.token], array[claim.queue_id], array[item."group"]);
  elsif claim.limited then
    perform turno.inbox_notify_by_id(claim.queue_id);
  end if;
  return true;
end
$$;

-- Whether a text is a claim: ITEM@TOKEN. A pattern without counts takes a third of the time of one with them, or of translate().
create or replace function turno.inbox_is_claim(claim text) returns boolean
language sql
immutable
as $$
  select claim like '%_@________-____-____-____-____________'
    and length(claim) <= 55
    and claim ~ '^[0-9]+@[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+$'
$$;

-- The same for a claim as callers have it. False if it is not one, too. In SQL, so that it is a part of its caller's expression.
create or replace function turno.inbox_complete_claim(claim text, request uuid) returns boolean
language sql
as $$
  select case
    when turno.inbox_is_claim(claim)
    then turno.inbox_complete_one(split_part(claim, '@', 1)::bigint, split_part(claim, '@', 2)::uuid, request)
    else false
  end
$$;

-- Deletes items of one claim that are done, and takes them out of it. The caller has locked the claim. Answers their number, the key of
-- each in the order of the items, and their groups, which the caller has to free.
create or replace function turno.inbox_end_items(
  b          turno.inbox_claim,
  ids        int8multirange,
  out many   bigint,
  out keys   text[],
  out groups text[]
)
language plpgsql
as $$
#variable_conflict use_column
begin
  many := turno.inbox_count(inbox_end_items.ids);
  insert into turno.inbox_tally (queue_id, items, completed)
  values (b.queue_id, -many, many);
  if inbox_end_items.ids = int8multirange(int8range(lower(inbox_end_items.ids), upper(inbox_end_items.ids))) then
    with gone as (
      delete from turno.inbox_item i
      where i.queue_priority = b.queue_priority
        and i.id >= lower(inbox_end_items.ids)
        and i.id < upper(inbox_end_items.ids)
      returning i.key, i."group")
    select array_agg(g.key), array_agg(g."group") filter (where g."group" is not null)
    into keys, groups
    from gone g;
  else
    with gone as (
      delete from turno.inbox_item i
      where i.ctid = any (array(select t.at from turno.inbox_places(b.queue_priority, inbox_end_items.ids) t))
      returning i.id, i.key, i."group")
    select array_agg(g.key order by g.id), array_agg(g."group") filter (where g."group" is not null)
    into keys, groups
    from gone g;
  end if;
  if b.ids <@ inbox_end_items.ids then
    delete from turno.inbox_claim t
    where t.token = b.token
      and t.queue_priority = b.queue_priority;
  else
    update turno.inbox_claim t
    set ids = b.ids - inbox_end_items.ids
    where t.token = b.token
      and t.queue_priority = b.queue_priority;
  end if;
  -- Not key by key where the queue has none, as the events of most applications.
  if turno.has_any(keys) and exists (select from turno.inbox_key k where k.queue_id = b.queue_id) then
    update turno.inbox_key k
    set done_at = clock_timestamp()
    where k.ctid = any (array(
      select t.at
      from unnest(keys) u(key)
      cross join lateral (
        select i.ctid as at
        from turno.inbox_key i
        where i.queue_id = b.queue_id
          and i.key = u.key
        offset 0) t));
  end if;
end
$$;

-- Many at once, perhaps for several callers: for each token and request, the items that are done. None is named twice.
--
-- Claim by claim, in small statements: one large statement takes longer to begin than all of these to run.
create or replace function turno.inbox_complete_batch(tokens uuid[], ids int8multirange[], requests uuid[])
returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  b      turno.inbox_claim;
  hit    int8multirange;
  hits   int8multirange;
  ended  record;
  done   bigint := 0;
  left_over int8multirange[] := inbox_complete_batch.ids;
  -- For each token and request.
  done_ids     int8multirange[] := array_fill('{}'::int8multirange, array[cardinality(inbox_complete_batch.tokens)]);
  done_queues  integer[] := array_fill(null::integer, array[cardinality(inbox_complete_batch.tokens)]);
  done_workers text[] := array_fill(null::text, array[cardinality(inbox_complete_batch.tokens)]);
  groups      text[];
  queues      integer[];
  stale       text[];
begin
  if cardinality(inbox_complete_batch.tokens) = 1
     and upper(inbox_complete_batch.ids[1]) - lower(inbox_complete_batch.ids[1]) = 1
     and turno.inbox_complete_one(
       lower(inbox_complete_batch.ids[1]), inbox_complete_batch.tokens[1], inbox_complete_batch.requests[1]) then
    return row(1, '{}'::text[])::turno.inbox_settled;
  end if;
  -- What is locked is read as it is now.
  for b in
    select *
    from turno.inbox_claim t
    where t.token = any (inbox_complete_batch.tokens)
    order by t.token, t.queue_priority
    for update
  loop
    hits := '{}';
    for n in 1..cardinality(inbox_complete_batch.tokens) loop
      if inbox_complete_batch.tokens[n] = b.token then
        hit := b.ids * left_over[n];
        if not isempty(hit) then
          left_over[n] := left_over[n] - hit;
          hits := hits + hit;
          done_ids[n] := done_ids[n] + hit;
          done_queues[n] := b.queue_id;
          done_workers[n] := b.worker;
        end if;
      end if;
    end loop;
    continue when isempty(hits);
    ended := turno.inbox_end_items(b, hits);
    done := done + ended.many;
    if b.limited then
      perform turno.inbox_notify_by_id(b.queue_id);
    end if;
    if ended.groups is not null then
      groups := groups || ended.groups;
      queues := queues || array_fill(b.queue_id, array[cardinality(ended.groups)]);
    end if;
  end loop;

  if done > 0 then
    insert into turno.inbox_done as d (request, token, queue_id, at, worker, ids)
    select u.request, u.token, u.queue_id, clock_timestamp(), u.worker, u.ids
    from unnest(inbox_complete_batch.requests, inbox_complete_batch.tokens, done_queues, done_workers, done_ids)
      u(request, token, queue_id, worker, ids)
    where u.queue_id is not null
    on conflict (request, token, queue_id) do update
    set ids = d.ids + excluded.ids;
  end if;
  if groups is not null then
    perform turno.inbox_free(inbox_complete_batch.tokens, queues, groups);
  end if;
  -- The record of the completion is the record of the request: what the same request did before was right too. Looked at
  -- only now, because it may have done that while this one waited for the claim.
  for n in 1..cardinality(left_over) loop
    if not isempty(left_over[n]) then
      hits := coalesce((
        select range_agg(r)
        from turno.inbox_done d
        cross join lateral unnest(d.ids) r
        where d.request = inbox_complete_batch.requests[n]
          and d.token = inbox_complete_batch.tokens[n]), '{}');
      done := done + turno.inbox_count(left_over[n] * hits);
      stale := stale || array(
        select i.id || '@' || inbox_complete_batch.tokens[n]
        from unnest(left_over[n] - hits) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i(id));
    end if;
  end loop;
  return row(done, coalesce(stale, '{}'))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_complete_batch is
  'Ends items that are done; those whose claim is no longer right are answered as stale, and nothing is done to them.';

-- A claim as it is written, in its two parts.
create or replace function turno.inbox_parse(claims text[], out ids bigint[], out tokens uuid[])
language plpgsql
immutable
as $$
declare
  wrong text;
begin
  select c into wrong
  from unnest(claims) c
  where turno.inbox_is_claim(c) is not true
  limit 1;
  if found then
    raise exception 'claim is not one: %', coalesce(quote_literal(left(wrong, 60)), 'null')
      using errcode = 'invalid_parameter_value', hint = 'It looks like 17@0190f1f4-2b3c-7d4e-8f50-112233445566, as inbox_claim answered it.';
  end if;
  select array_agg(split_part(c, '@', 1)::bigint order by n), array_agg(split_part(c, '@', 2)::uuid order by n)
  into ids, tokens
  from unnest(claims) with ordinality u(c, n);
end
$$;

create or replace function turno.inbox_complete(claims text[], request uuid default null) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  own    uuid := coalesce(inbox_complete.request, gen_random_uuid());
  ids    bigint[];
  tokens uuid[];
  s      turno.inbox_settled;
  stale  text[];
begin
  if cardinality(inbox_complete.claims) = 1 and turno.inbox_complete_claim(inbox_complete.claims[1], inbox_complete.request) then
    return row(1, '{}'::text[])::turno.inbox_settled;
  end if;
  select p.ids, p.tokens into ids, tokens
  from turno.inbox_parse(inbox_complete.claims) p;
  select d.* into s
  from (
    select array_agg(g.token) as tokens, array_agg(g.ids) as ids, array_agg(own) as requests
    from (
      select u.token, turno.inbox_id_ranges(array_agg(distinct u.id)) as ids
      from unnest(ids, tokens) u(id, token)
      group by u.token) g) a
  cross join lateral turno.inbox_complete_batch(a.tokens, a.ids, a.requests) d;
  if s.done = cardinality(ids) then
    return s;
  end if;
  -- In the order of the claims; what is there twice was right once.
  select array_agg(u.claim order by u.place) into stale
  from (
    select c.id || '@' || c.token as claim, c.place, row_number() over (partition by c.id, c.token order by c.place) as again
    from unnest(ids, tokens) with ordinality c(id, token, place)) u
  where u.again > 1
     or u.claim = any (s.stale);
  return row(coalesce(s.done, 0), coalesce(stale, '{}'))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_complete(text[], uuid) is
  'Ends items that are done. In the transaction of the work, item and effect end together: look at stale, and roll back if it is not empty.';

-- The same for one item, which fails instead of answering stale.
create or replace function turno.inbox_complete_or_raise(claim text, request uuid) returns void
language plpgsql
as $$
begin
  if (turno.inbox_complete(array[claim], request)).done = 0 then
    raise exception 'the claim % is stale: another worker may have the item', claim
      using errcode = 'TN410', hint = 'Roll back: the worker that has the item now does it again.';
  end if;
end
$$;

-- As the last statement of a transaction: effect and completion commit together or not at all.
create or replace function turno.inbox_complete(claim text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- The usual case first: as a condition, a call takes less time than as a statement.
  if not turno.inbox_complete_claim(claim, null) then
    perform turno.inbox_complete_or_raise(claim, null);
  end if;
end
$$;

comment on function turno.inbox_complete(text) is
  'Ends one item that is done, and fails if the claim is stale: effect and completion then commit together or not at all.';

-- A worker that has a connection of its own ends an item and claims the next one. In one transaction this is one commit, and one
-- round trip.
create or replace function turno.inbox_complete_and_claim(
  claim   text,
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
begin
  if claim is not null and not turno.inbox_complete_claim(claim, request) then
    perform turno.inbox_complete_or_raise(claim, request);
  end if;
  return query
  select c.*
  from turno.inbox_claim(queue, worker, "limit", lease, request) c;
end
$$;

comment on function turno.inbox_complete_and_claim is
  'Ends one item that is done (none if claim is null), and claims up to limit items, in one commit. Fails if the claim is stale, and then it has claimed nothing.';

-- Purpose: records failed attempts, and gives back what was not begun.
-- Index:   as for inbox_complete.

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
      return turno.inbox_stored_answer(answer);
    end if;
  end if;
  if exists (select from unnest(inbox_fail_batch.retry_ins) r where r < '0' or r > '3660 days') then
    raise exception 'retry_in must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for an exponential back-off.';
  end if;
  with hit as materialized (
    select h.*, i.attempts
    from turno.inbox_unclaim(inbox_fail_batch.ids, inbox_fail_batch.tokens) h
    cross join lateral (
      select t.attempts
      from turno.inbox_item t
      where t.queue_priority = h.queue_priority
        and t.id = h.id
      offset 0) i),
  ended as materialized (
    select h.place, h.queue_priority / 4 as queue_id, turno.inbox_end_attempt(
      h.queue_priority, h.id, 'failed', turno.inbox_truncate_error(coalesce(inbox_fail_batch.errors[h.place], '')), h.worker,
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
  perform turno.inbox_notify_by_id(q)
  from unnest(queues) q;
  return turno.inbox_store_answer(
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
      return turno.inbox_stored_answer(answer);
    end if;
  end if;
  with hit as materialized (
    select h.place, i.at
    from turno.inbox_unclaim(inbox_give_back_batch.ids, inbox_give_back_batch.tokens) h
    cross join lateral (
      select t.ctid as at
      from turno.inbox_item t
      where t.queue_priority = h.queue_priority
        and t.id = h.id
      offset 0) i),
  back as (
    update turno.inbox_item i
    set run_at = clock_timestamp()
    from hit h
    where i.ctid = h.at
    returning h.place, i.queue_priority / 4 as queue_id, i."group"),
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
  perform turno.inbox_notify_by_id(q)
  from unnest(queues) q;
  return turno.inbox_store_answer(
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

-- Purpose: lengthens claims; never shortens one. Items that were claimed together live together.
-- Index:   inbox_claim_pkey.

create or replace function turno.inbox_extend_batch(ids bigint[], tokens uuid[], lease interval) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  places bigint[];
  many   bigint;
begin
  perform turno.check_lease(inbox_extend_batch.lease);
  perform 1
  from turno.inbox_claim b
  where b.token = any (inbox_extend_batch.tokens)
  order by b.token, b.queue_priority
  for update;
  with lives as (
    update turno.inbox_claim b
    set until = greatest(b.until, clock_timestamp() + inbox_extend_batch.lease)
    where b.token = any (inbox_extend_batch.tokens)
    returning b.token, b.ids)
  -- Given twice, a claim is still held, and counted once.
  select array_agg(a.place), count(distinct (a.id, a.token)) into places, many
  from unnest(inbox_extend_batch.ids, inbox_extend_batch.tokens) with ordinality a(id, token, place)
  join lives l on l.token = a.token and l.ids @> a.id;
  return row(many, turno.inbox_stale(inbox_extend_batch.ids, inbox_extend_batch.tokens, places))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_extend_batch is 'Lengthens claims to lease from now; those that are gone are answered as stale.';

create or replace function turno.inbox_extend(claims text[], lease interval default '30 seconds') returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_extend.claims) p
  cross join lateral turno.inbox_extend_batch(p.ids, p.tokens, inbox_extend.lease) s
$$;

comment on function turno.inbox_extend is
  'Lengthens claims to lease from now; those that are gone are answered as stale. Items that were claimed together live together.';
