-- Purpose: ends what a worker holds: the one place that decides whether a claim is still right.
-- Index:   inbox_batch_pkey, inbox_item_pkey. Rows are looked up one by one (lateral, offset 0) and changed where they
--          were found (ctid): so no statistics can turn a join round, and scan a table for a handful of rows.

-- Takes items out of their claims, and answers those that were in them. A claim that is over by time, but was taken
-- over by nobody, is still right.
create or replace function turno.inbox_let_go(ids bigint[], tokens uuid[])
returns table (place bigint, id bigint, token uuid, lane integer, worker text)
language plpgsql
as $$
#variable_conflict use_column
begin
  -- Locked first, and looked at by the next statement, which sees them as they are now.
  perform 1
  from turno.inbox_batch b
  where b.token = any (inbox_let_go.tokens)
  order by b.token, b.lane
  for update;
  return query
  with asked as (
    select distinct on (a.id, a.token) a.place, a.id, a.token
    from unnest(inbox_let_go.ids, inbox_let_go.tokens) with ordinality a(id, token, place)
    order by a.id, a.token, a.place),
  batch as materialized (
    select b.ctid as at, b.token, b.lane, b.ids, b.worker
    from turno.inbox_batch b
    where b.token = any (inbox_let_go.tokens)),
  hit as materialized (
    select a.place, a.id, a.token, b.at, b.lane, b.worker
    from asked a
    join batch b on b.token = a.token and b.ids @> a.id),
  gone as materialized (
    select h.at, range_agg(int8range(h.id, h.id, '[]')) as ids
    from hit h
    group by h.at),
  shrunk as (
    update turno.inbox_batch b
    set ids = b.ids - g.ids
    from gone g
    where b.ctid = g.at
      and not b.ids <@ g.ids),
  ended as (
    delete from turno.inbox_batch b
    using gone g
    where b.ctid = g.at
      and b.ids <@ g.ids)
  select h.place, h.id, h.token, h.lane, h.worker
  from hit h;
end
$$;

-- Their groups are no longer kept busy by these claims.
create or replace function turno.inbox_free_groups(tokens uuid[], groups text[]) returns void
language sql
as $$
  update turno.inbox_batch b
  set groups = array(select g from unnest(b.groups) g where g <> all (inbox_free_groups.groups))
  where b.token = any (inbox_free_groups.tokens)
    and b.groups && inbox_free_groups.groups
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
create or replace function turno.inbox_told(answer jsonb) returns turno.inbox_settled
language sql
immutable
as $$
  select row((answer->>'done')::bigint, array(select jsonb_array_elements_text(answer->'stale')))::turno.inbox_settled
$$;

create or replace function turno.inbox_tell(request uuid, settled turno.inbox_settled) returns turno.inbox_settled
language plpgsql
as $$
begin
  perform turno.inbox_answer(request, jsonb_build_object('done', settled.done, 'stale', to_jsonb(settled.stale)));
  return settled;
end
$$;

-- Many at once, perhaps for several callers: requests has one for each item, or is null.
create or replace function turno.inbox_complete_batch(ids bigint[], tokens uuid[], requests uuid[] default null)
returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  own    uuid := gen_random_uuid();
  before bigint[];
  places bigint[];
  groups text[];
  queues integer[];
begin
  with hit as materialized (
    select h.place, h.token, h.worker, coalesce(inbox_complete_batch.requests[h.place], own) as request, i.at
    from turno.inbox_let_go(inbox_complete_batch.ids, inbox_complete_batch.tokens) h
    cross join lateral (
      select t.ctid as at
      from turno.inbox_item t
      where t.lane = h.lane
        and t.id = h.id
      offset 0) i),
  gone as (
    delete from turno.inbox_item i
    using hit h
    where i.ctid = h.at
    returning i.lane / 4 as queue_id, i.id, i.key, i."group", h.token, h.worker, h.request),
  kept as (
    insert into turno.inbox_done as d (request, token, queue_id, at, worker, ids)
    select g.request, g.token, g.queue_id, clock_timestamp(), min(g.worker), range_agg(int8range(g.id, g.id, '[]'))
    from gone g
    group by g.request, g.token, g.queue_id
    on conflict (request, token, queue_id) do update
    set ids = d.ids + excluded.ids),
  counted as (
    insert into turno.inbox_tally (queue_id, items, completed)
    select g.queue_id, -count(*), count(*)
    from gone g
    group by g.queue_id),
  freed as (
    insert into turno.inbox_freed (queue_id, "group")
    select g.queue_id, g."group"
    from gone g
    where g."group" is not null
    returning queue_id, "group"),
  keys as (
    update turno.inbox_key k
    set done_at = clock_timestamp()
    from gone g
    cross join lateral (
      select t.ctid as at
      from turno.inbox_key t
      where t.queue_id = g.queue_id
        and t.key = g.key
      offset 0) f
    where g.key is not null
      and k.ctid = f.at)
  select
    (select array_agg(h.place) from hit h),
    (select array_agg(distinct f."group") from freed f),
    (select array_agg(distinct f.queue_id) from freed f)
  into places, groups, queues;
  if groups is not null then
    perform turno.inbox_free_groups(inbox_complete_batch.tokens, groups);
    -- Whoever has nothing to do may have the next one.
    perform turno.inbox_call(q)
    from unnest(queues) q;
  end if;
  if cardinality(places) = cardinality(inbox_complete_batch.ids) then
    return row(cardinality(places), '{}'::text[])::turno.inbox_settled;
  end if;
  -- The record of the completion is the record of the request: what the same request did before was right too. Looked at
  -- only now, because it may have done that while this one waited for the claim. What is there twice was right once.
  if inbox_complete_batch.requests is not null then
    select array_agg(a.place) into before
    from (
      select distinct on (u.id, u.token, u.request) u.id, u.token, u.request, u.place
      from unnest(inbox_complete_batch.ids, inbox_complete_batch.tokens, inbox_complete_batch.requests)
        with ordinality u(id, token, request, place)
      order by u.id, u.token, u.request, u.place) a
    where a.place <> all (coalesce(places, '{}'))
      and exists (
        select from turno.inbox_done d
        where d.request = a.request
          and d.token = a.token
          and d.ids @> a.id);
    places := before || places;
  end if;
  return row(
    coalesce(cardinality(places), 0),
    turno.inbox_stale(inbox_complete_batch.ids, inbox_complete_batch.tokens, places))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_complete_batch is
  'Ends items that are done; those whose claim is no longer right are answered as stale, and nothing is done to them.';

-- A claim as it is written, ITEM@TOKEN, in its two parts.
create or replace function turno.inbox_parse(claims text[], out ids bigint[], out tokens uuid[])
language plpgsql
immutable
as $$
declare
  wrong text;
begin
  select c into wrong
  from unnest(claims) c
  where c is null
     or c !~ '^[0-9]{1,18}@[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
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
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_complete.claims) p
  cross join lateral turno.inbox_complete_batch(
    p.ids, p.tokens,
    case when inbox_complete.request is not null then array_fill(inbox_complete.request, array[cardinality(p.ids)]) end) s
$$;

comment on function turno.inbox_complete(text[], uuid) is
  'Ends items that are done. In the transaction of the work, item and effect end together: look at stale, and roll back if it is not empty.';

-- The same for one item, which fails instead of answering stale: as the last statement of a transaction, effect and
-- completion commit together or not at all.
create or replace function turno.inbox_complete(claim text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if (turno.inbox_complete(array[claim])).done = 0 then
    raise exception 'the claim % is stale: another worker may have the item', claim
      using errcode = 'TN410', hint = 'Roll back: the item is done again by whoever has it now.';
  end if;
end
$$;

comment on function turno.inbox_complete(text) is
  'Ends one item that is done, and fails if the claim is stale: effect and completion then commit together or not at all.';
