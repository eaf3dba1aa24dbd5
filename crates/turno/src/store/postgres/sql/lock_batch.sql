-- Purpose: several calls of one process in one round trip, one commit and one or two statements. Each has its own outcome;
--          place is the number of the call, from one.
-- Index:   lock_pkey; other plans are ruled out, because an unanalysed table would invite them. Where one of those cannot be
--          avoided it looks so dear that it would be compiled, which takes far longer than to run it: so not that either.
--
-- The usual ones are done as a set; whatever is left over is done one by one. No caller may have to wait
-- for another's row lock: rows are locked with `skip locked`, and what would have to wait (a re-entry or a
-- release beside an open guard) or is shared is answered "later", and is asked again alone.

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
) returns table (place bigint, answer turno.lock_outcome)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  done  boolean[] := array_fill(false, array[cardinality(resources)]);
  taken record;
  floor bigint;
  tick  bigint  := turno.next_token();
  -- Whether all are what lock_is_plain asks of one, but for their length: looked at together, all cost what one does.
  plain boolean := concat_ws('-',
      array_to_string(owners, '-'), array_to_string(users, '-'), array_to_string(services, '-'),
      array_to_string(descriptions, '-'), array_to_string(hosts, '-')) !~ '[[:cntrl:]]'
    and array_position(owners, '') is null
    and array_position(owners, null) is null
    and array_position(users, '') is null
    and array_position(services, '') is null
    and array_position(descriptions, '') is null
    and array_position(hosts, '') is null;
begin
  -- Held ones first, which costs little beside the statement for free ones; and again, for those who asked for the same lock as
  -- one who has just got it.
  for pass in 1..2 loop
    -- Held ones: busy, with the holder.
    for taken in
      select
        a.place,
        case
          when t.mode = 'shared' then turno.lock_answer('busy', t)
          else row(
            'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
            t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome
        end as answer
      from unnest(resources, owners, done) with ordinality a(resource, owner, done, place)
      cross join lateral (
        select *
        from turno.lock k
        where k.resource = a.resource
        offset 0) t
      where not a.done
        and (t.mode = 'shared' or t.owner <> a.owner)
        and turno.lock_is_taken(t)
    loop
      done[taken.place] := true;
      place := taken.place;
      answer := taken.answer;
      return next;
    end loop;
    exit when pass = 2 or true = all (done);

    -- Free ones, for the first caller of each; with plainly valid arguments only, as in lock_acquire.
    for taken in
      with asked as (
        select distinct on (a.resource) a.*
        from unnest(resources, owners, ttls, users, services, descriptions, hosts, pids, requests, done)
          with ordinality a(resource, owner, ttl, "user", service, description, host, pid, request, done, place)
        where not a.done
          and a.ttl between '1 millisecond' and '24 hours'
          and a.request is not null
          and octet_length(concat(a.owner, a."user", a.service, a.description, a.host)) < 250
          and (plain or turno.lock_is_plain(a.owner, a."user", a.service, a.description, a.host))
        order by a.resource, a.place),
      -- One by one (lateral), and changed where they were found (ctid): no statistics can turn the join round.
      free as materialized (
        select a.*, f.at
        from asked a
        cross join lateral (
          select k.ctid as at
          from turno.lock k
          where k.resource = a.resource
            and k.holds = 0
            and turno.lock_is_takeable(k, a.owner)
          for update skip locked) f)
      update turno.lock t
      set token       = greatest(t.token + 1, tick),
          mode        = 'exclusive',
          owner       = f.owner,
          holds       = 1,
          acquired_at = clock_timestamp(),
          expires_at  = clock_timestamp() + f.ttl,
          min_until   = null,
          max_until   = null,
          "user"      = f."user",
          service     = f.service,
          description = f.description,
          host        = f.host,
          pid         = f.pid,
          hold_ids    = array[f.request],
          requests    = '{}'
      from free f
      where t.ctid = f.at
      returning f.place, row(
        'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
        t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome as answer
    loop
      done[taken.place] := true;
      place := taken.place;
      answer := taken.answer;
      return next;
    end loop;
    exit when true = all (done);
  end loop;

  -- New ones, as lock_create makes them: an insert may not wait for another's, and the floor is read after it.
  if not (true = all (done)) then
    for taken in
      with asked as (
        select distinct on (a.resource) a.*
        from unnest(resources, owners, ttls, users, services, descriptions, hosts, pids, requests, done)
          with ordinality a(resource, owner, ttl, "user", service, description, host, pid, request, done, place)
        where not a.done
          and a.ttl between '1 millisecond' and '24 hours'
          and a.request is not null
          and octet_length(a.resource) between 1 and 255
          and a.resource !~ '[[:cntrl:]]'
          and turno.lock_is_plain(a.owner, a."user", a.service, a.description, a.host)
        order by a.resource, a.place),
      absent as materialized (
        select a.*
        from asked a
        left join lateral (
          select t.resource
          from turno.lock t
          where t.resource = a.resource
          offset 0) k on true
        where k.resource is null),
      made as (
        insert into turno.lock as t (
          resource, token, mode, owner, holds, acquired_at, expires_at,
          "user", service, description, host, pid, hold_ids)
        select
          a.resource, turno.next_token(), 'exclusive', a.owner, 1, clock_timestamp(), clock_timestamp() + a.ttl,
          a."user", a.service, a.description, a.host, a.pid, array[a.request]
        from absent a
        where turno.lock_may_create(a.resource)
        on conflict do nothing
        returning t.*)
      select a.place, row(
        'acquired', m.resource, m.owner, m.token, m.holds, m.acquired_at, m.expires_at,
        m.expires_at - clock_timestamp(), m."user", m.service, m.description)::turno.lock_outcome as answer
      from made m
      join absent a on a.resource = m.resource
    loop
      floor := coalesce(floor, (select f.token from turno.lock_floor f));
      done[taken.place] := true;
      place := taken.place;
      answer := taken.answer;
      if answer.token <= floor then
        answer.token := turno.lock_above_floor(answer.resource, answer.token);
      end if;
      return next;
    end loop;
  end if;

  for i in 1..cardinality(resources) loop
    continue when done[i];
    place := i;
    -- An error is for its own caller alone: one that may be above the owner's limit is asked alone.
    if ttls[i] > '24 hours' then
      answer := row('later', resources[i], null, null, null, null, null, null, null, null, null)::turno.lock_outcome;
      return next;
      continue;
    end if;
    -- A batch must not wait: a re-entry beside an open guard of its own waits for that guard's transaction, and the gate of
    -- shared holds is tried for some milliseconds while it is locked.
    perform 1
    from turno.lock t
    where t.resource = resources[i]
      and ((t.owner = owners[i] and t.holds > 0) or t.mode = 'shared');
    if found then
      perform 1
      from turno.lock t
      where t.resource = resources[i]
        and t.mode = 'exclusive'
      for no key update skip locked;
      if not found then
        answer := row('later', resources[i], null, null, null, null, null, null, null, null, null)::turno.lock_outcome;
        return next;
        continue;
      end if;
    end if;
    answer := turno.lock_acquire(
      resource => resources[i], owner => owners[i], ttl => ttls[i], "user" => users[i],
      service => services[i], description => descriptions[i], host => hosts[i], pid => pids[i],
      request => requests[i]);
    return next;
  end loop;
end
$$;

comment on function turno.lock_acquire_batch is
  'Many exclusive acquires at once, each with an answer of its own; outcome later: ask that one alone.';

create or replace function turno.lock_release_batch(
  resources text[],
  tokens    bigint[],
  holds     uuid[],
  requests  uuid[]
) returns table (place bigint, answer turno.lock_ending)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  done boolean[] := array_fill(false, array[cardinality(lock_release_batch.resources)]);
  over record;
begin
  -- The last hold of a lease: the usual release.
  for over in
    with asked as (
      select distinct on (a.resource) a.*
      from unnest(
        lock_release_batch.resources, lock_release_batch.tokens, lock_release_batch.holds,
        lock_release_batch.requests) with ordinality a(resource, token, hold, request, place)
      order by a.resource, a.place),
    last_hold as materialized (
      select a.*, h.at
      from asked a
      cross join lateral (
        select k.ctid as at
        from turno.lock k
        where k.resource = a.resource
          and k.token = a.token
          and k.mode = 'exclusive'
          and k.holds = 1
          and (a.hold = any (k.hold_ids) or (a.hold is null and a.request <> all (k.requests)))
        for no key update skip locked) h),
    freed as (
      update turno.lock t
      set holds    = 0,
          hold_ids = '{}'
      from last_hold l
      where t.ctid = l.at
      returning t.*, l.place, coalesce(l.hold, l.request) as request),
    history as (
      insert into turno.lock_history (
        event, resource, token, mode, owner, "user", service, description, host, pid,
        acquired_at, expires_at, reason, request)
      select
        'released', f.resource, f.token, f.mode, f.owner, f."user", f.service, f.description, f.host, f.pid,
        f.acquired_at, f.expires_at, case when f.expires_at <= clock_timestamp() then 'after its expiry' end,
        f.request
      from freed f)
    select f.place, f.resource, f.waited_until, f.fifo_until
    from freed f
  loop
    done[over.place] := true;
    place := over.place;
    answer := row('released', 0)::turno.lock_ending;
    if over.waited_until > clock_timestamp() then
      perform turno.wake('turno_lock', over.resource);
    end if;
    if over.fifo_until > clock_timestamp() + '10 seconds' then
      perform turno.lock_shorten_waiters(over.resource);
    end if;
    return next;
  end loop;

  for i in 1..cardinality(lock_release_batch.resources) loop
    continue when done[i];
    place := i;
    perform 1
    from turno.lock t
    where t.resource = lock_release_batch.resources[i]
      and t.mode = 'exclusive'
    for no key update skip locked;
    if found then
      answer := turno.lock_release(
        lock_release_batch.resources[i], lock_release_batch.tokens[i], lock_release_batch.holds[i],
        lock_release_batch.requests[i]);
    else
      answer := row('later', null)::turno.lock_ending;
    end if;
    return next;
  end loop;
end
$$;

comment on function turno.lock_release_batch is
  'Many releases at once, each with an answer of its own; outcome later: ask that one alone.';

create or replace function turno.lock_renew_batch(
  resources text[],
  tokens    bigint[],
  ttls      interval[]
) returns table (place bigint, answer turno.lock_renewal)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  -- Live exclusive leases: the usual renewal. Whatever else it is (shared, late, stale, beside an open guard, a second
  -- one of the same lease) has no answer here, and is asked alone.
  return query
  with asked as (
    select distinct on (a.resource) a.*
    from unnest(lock_renew_batch.resources, lock_renew_batch.tokens, lock_renew_batch.ttls)
      with ordinality a(resource, token, ttl, place)
    where a.ttl between '1 millisecond' and '24 hours'
    order by a.resource, a.place),
  live as materialized (
    select a.*, h.at
    from asked a
    cross join lateral (
      select k.ctid as at
      from turno.lock k
      where k.resource = a.resource
        and k.token = a.token
        and k.mode = 'exclusive'
        and k.holds > 0
        and k.expires_at > clock_timestamp()
      for no key update skip locked) h)
  update turno.lock t
  set expires_at = greatest(t.expires_at, least(clock_timestamp() + l.ttl, t.max_until))
  from live l
  where t.ctid = l.at
  returning l.place, row('renewed', t.expires_at, t.expires_at - clock_timestamp())::turno.lock_renewal;
end
$$;

comment on function turno.lock_renew_batch is
  'Many renewals at once, each with its own answer; a call without an answer is repeated alone.';
