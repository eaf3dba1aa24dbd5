-- Purpose: numbers of items as ranges, which is how claims keep them: items are claimed in line, so a thousand of them
--          are one range most of the time.
-- Index:   none.

create or replace function turno.inbox_ranges(ids bigint[]) returns int8multirange
language plpgsql
immutable
as $$
declare
  first bigint;
  last  bigint;
begin
  if cardinality(ids) = 1 then
    return int8multirange(int8range(ids[1], ids[1], '[]'));
  end if;
  select min(i), max(i) into first, last
  from unnest(ids) i;
  -- Told apart first: to put ranges together one by one costs more than all the rest of a claim.
  if last - first + 1 = cardinality(ids) then
    return int8multirange(int8range(first, last, '[]'));
  end if;
  return (
    select range_agg(int8range(i, i, '[]'))
    from unnest(ids) i);
end
$$;

-- Where the items of some ranges are. Looked up range by range (lateral, offset 0), whatever the planner thinks of a table
-- that it knows nothing about.
create or replace function turno.inbox_places(lane integer, ids int8multirange) returns table (at tid)
language sql
stable
as $$
  select i.at
  from unnest(inbox_places.ids) r
  cross join lateral (
    select t.ctid as at
    from turno.inbox_item t
    where t.lane = inbox_places.lane
      and t.id >= lower(r)
      and t.id < upper(r)
    offset 0) i
$$;

create or replace function turno.inbox_count(ids int8multirange) returns bigint
language plpgsql
immutable
as $$
begin
  if ids = int8multirange(int8range(lower(ids), upper(ids))) then
    return upper(ids) - lower(ids);
  end if;
  return (
    select coalesce(sum(upper(r) - lower(r)), 0)
    from unnest(ids) r);
end
$$;
