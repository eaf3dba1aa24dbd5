-- Purpose: where fencing tokens come from.
-- Index:   lock_pkey.

-- A token follows the clock, in microseconds, and is one more than the last whenever the clock has
-- not moved on (or has moved back). So a database restored from a backup still grants tokens above
-- those it has forgotten, with nobody having to remember to tell it.
create or replace function turno.lock_tick() returns bigint
language sql
volatile
as $$
  select (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$$;

-- Lifts a new row's token above that of every row ever purged.
create or replace function turno.lock_above_floor(resource text, token bigint) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  floor bigint;
begin
  select f.token into floor
  from turno.lock_floor f;
  if floor < lock_above_floor.token then
    return lock_above_floor.token;
  end if;
  update turno.lock t
  set token = floor + 1
  where t.resource = lock_above_floor.resource;
  return floor + 1;
end
$$;
