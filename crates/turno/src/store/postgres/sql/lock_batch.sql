-- Purpose: what arrived together, done together: one round trip and one commit for many callers of one
--          process, each with an outcome of its own, in the order in which they were named. Callers sort
--          by resource, so that two batches cannot wait for each other.
-- Index:   lock_pkey.
--
-- No caller may have to wait for another's row lock: whatever would (a re-entry or a release beside an
-- open guard) and anything shared is answered "later", and is asked again alone.

create or replace function turno.lock_acquire_batch(
  resources    text[],
  owners       text[],
  ttls         interval[],
  users        text[],
  services     text[],
  descriptions text[],
  hosts        text[],
  pids         integer[],
  requests     uuid[]
) returns setof turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set turno.batch = 'on'
as $$
begin
  for i in 1..cardinality(resources) loop
    return next turno.lock_acquire(
      resource => resources[i], owner => owners[i], ttl => ttls[i], "user" => users[i],
      service => services[i], description => descriptions[i], host => hosts[i], pid => pids[i],
      request => requests[i], max_ttl => greatest(ttls[i], '24 hours'));
  end loop;
end
$$;

comment on function turno.lock_acquire_batch is
  'Many exclusive acquires at once, each with its own outcome, in the order given; outcome later: ask that one alone. Sort by resource.';

create or replace function turno.lock_release_batch(
  resources text[],
  tokens    bigint[],
  holds     uuid[],
  requests  uuid[]
) returns setof turno.lock_ending
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  free text[];
begin
  -- Locked here, in order and without waiting, so that the releases below do not wait either.
  select array_agg(k.resource) into free
  from (
    select t.resource
    from turno.lock t
    where t.resource = any (resources)
      and t.mode = 'exclusive'
    order by t.resource
    for no key update skip locked) k;
  for i in 1..cardinality(resources) loop
    if resources[i] = any (free) then
      return next turno.lock_release(resources[i], tokens[i], holds[i], requests[i]);
    else
      return next row('later', null)::turno.lock_ending;
    end if;
  end loop;
end
$$;

comment on function turno.lock_release_batch is
  'Many releases at once, each with its own outcome, in the order given; outcome later: ask that one alone. Sort by resource.';
