-- Purpose: lengthens claims; never shortens one. Items that were claimed together live together.
-- Index:   inbox_batch_pkey.

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
  from turno.inbox_batch b
  where b.token = any (inbox_extend_batch.tokens)
  order by b.token, b.lane
  for update;
  with lives as (
    update turno.inbox_batch b
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
