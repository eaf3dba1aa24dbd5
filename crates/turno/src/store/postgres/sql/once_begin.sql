-- Purpose: which caller may run a request, and the outcome for the others.
-- Index:   once_pkey; once_scope for a quota. rights.sql rules other plans out.

-- How long an unknown outcome of a run is kept, if its answer would have been kept for less.
create or replace function turno.once_unknown_for() returns interval
language sql
immutable
as $$
  select interval '1 day'
$$;

-- What a row means now: in_flight, done, unknown, or gone (as if it were not there).
create or replace function turno.once_state(o turno.once) returns text
language sql
volatile
as $$
  select case
    when o.state = 'done' then case when o.until > clock_timestamp() then 'done' else 'gone' end
    when o.state = 'running' then
      case
        when o.until > clock_timestamp() then 'in_flight'
        when o.until + greatest(o.ttl, turno.once_unknown_for()) > clock_timestamp() then 'unknown'
        else 'gone'
      end
    else 'gone'
  end
$$;

create or replace function turno.once_answer(o turno.once, outcome text) returns turno.once_outcome
language sql
volatile
as $$
  select row(
    outcome, o.key,
    -- The token is a right: only the caller with the claim gets it, and with unknown the one that has to decide.
    case when outcome in ('fresh', 'unknown') then o.token end,
    o.attempt,
    case when outcome = 'replay' then o.answer end,
    o.began_at, o.until, greatest(o.until - clock_timestamp(), '0'), o.worker,
    case when outcome in ('fresh', 'unknown') then o.key || '@' || o.token end)::turno.once_outcome
$$;

create or replace function turno.once_check(
  key         text,
  fingerprint text,
  lease       interval,
  ttl         interval,
  unknown     text,
  worker      text,
  scope       text,
  quota       integer
) returns void
language plpgsql
immutable
as $$
begin
  perform turno.check_name('key', key, 255);
  if fingerprint is not null then perform turno.check_name('fingerprint', fingerprint, 255); end if;
  if worker is not null then perform turno.check_name('worker', worker, 255); end if;
  if scope is not null then perform turno.check_name('scope', scope, 255); end if;
  if not coalesce(lease between '1 millisecond' and '24 hours', false) then
    raise exception 'lease is %, and must be between 1 ms and 24 hours', coalesce(lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter one, and extend it.';
  end if;
  if not coalesce(ttl between '0' and '3660 days', false) then
    raise exception 'ttl is %, and must be between 0 and 10 years', coalesce(ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give 0 to keep no answer, or say 1 day.';
  end if;
  if unknown is null or unknown not in ('refuse', 'rerun') then
    raise exception 'unknown is %, and must be refuse or rerun', coalesce(quote_literal(unknown), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave it out to refuse.';
  end if;
  if quota is not null and (quota < 1 or quota > 1000000 or scope is null) then
    raise exception 'quota is %, and must be between 1 and 1000000, with a scope', quota
      using errcode = 'invalid_parameter_value', hint = 'Say whose quota it is, or leave both out.';
  end if;
end
$$;

-- Whether there is surely nothing wrong with what is asked: the quick look before once_check says what is.
create or replace function turno.once_is_plain(
  key         text,
  fingerprint text,
  lease       interval,
  ttl         interval,
  unknown     text,
  worker      text,
  scope       text,
  quota       integer
) returns boolean
language sql
immutable
as $$
  select coalesce(
    octet_length(key) between 1 and 255
    and octet_length(coalesce(fingerprint, '-')) between 1 and 255
    and octet_length(coalesce(worker, '-')) between 1 and 255
    -- One look at all of them, and no counting: a pattern that counts to 255 costs more than everything else here.
    and key || coalesce(fingerprint, '') || coalesce(worker, '') !~ '[^ -~]'
    and lease >= '1 millisecond' and lease <= '24 hours'
    and ttl >= '0' and ttl <= '3660 days'
    and unknown in ('refuse', 'rerun')
    and scope is null and quota is null, false)
$$;

-- Whether a scope has as many live keys as it may.
create or replace function turno.once_is_full(scope text, quota integer) returns boolean
language sql
volatile
as $$
  select count(*) >= quota
  from (
    select
    from turno.once o
    where o.scope = once_is_full.scope
      and o.sweep_at > clock_timestamp()
      and turno.once_state(o) <> 'gone'
    limit quota) live
$$;

create or replace function turno.once_begin(
  key         text,
  fingerprint text     default null,
  lease       interval default '30 seconds',
  ttl         interval default '1 day',
  unknown     text     default 'refuse',
  worker      text     default null,
  waits       boolean  default false,
  scope       text     default null,
  quota       integer  default null,
  request     uuid     default null
) returns turno.once_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  o   turno.once;
  now text;
begin
  if not turno.once_is_plain(
    once_begin.key, once_begin.fingerprint, once_begin.lease, once_begin.ttl, once_begin.unknown, once_begin.worker,
    once_begin.scope, once_begin.quota) then
    perform turno.once_check(
      once_begin.key, once_begin.fingerprint, once_begin.lease, once_begin.ttl, once_begin.unknown, once_begin.worker,
      once_begin.scope, once_begin.quota);
  end if;
  -- Each turn but the last found a row that another transaction had changed.
  for turn in 1..100 loop
    select * into o
    from turno.once t
    where t.key = once_begin.key;
    now := case when found then turno.once_state(o) else 'gone' end;
    if now = 'in_flight' and o.request = once_begin.request then
      -- The answer to the same question was lost.
      return turno.once_answer(o, 'fresh');
    end if;
    if now <> 'gone' and o.fingerprint <> once_begin.fingerprint then
      return turno.once_answer(o, 'mismatch');
    end if;
    if now = 'done' then
      return turno.once_answer(o, 'replay');
    end if;
    if now = 'in_flight' then
      -- Who waits looks again when the lease is over: until then it is notified, and for ten seconds at the least.
      if not once_begin.waits
         or o.waited_until >= greatest(o.until, clock_timestamp() + interval '5 seconds') then
        return turno.once_answer(o, 'in_flight');
      end if;
      -- Marks the row, so that the answer notifies. Not if the answer is being written: that may take a whole transaction.
      perform
      from turno.once t
      where t.key = once_begin.key
      for no key update skip locked;
      if not found then
        -- Without a mark it has to look again soon.
        o.until := least(o.until, clock_timestamp() + interval '100 milliseconds');
        return turno.once_answer(o, 'in_flight');
      end if;
      update turno.once t
      set waited_until = greatest(t.until, clock_timestamp() + interval '10 seconds')
      where t.key = once_begin.key
        and t.token = o.token
        and t.state = 'running';
      if found then
        return turno.once_answer(o, 'in_flight');
      end if;
      continue;
    end if;
    if now = 'unknown' and once_begin.unknown = 'refuse' then
      return turno.once_answer(o, 'unknown');
    end if;
    if once_begin.quota is not null and now = 'gone' and turno.once_is_full(once_begin.scope, once_begin.quota) then
      return row('over_quota', once_begin.key, null, null, null, null, null, null, null, null)::turno.once_outcome;
    end if;
    if o.key is null then
      insert into turno.once (
        key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, sweep_at)
      values (
        once_begin.key, once_begin.fingerprint, 'running',
        -- Tokens follow the clock, and are above those of every purged row.
        greatest(turno.next_token(), (select f.token + 1 from turno.lock_floor f)), 1,
        coalesce(once_begin.request, gen_random_uuid()), once_begin.worker, clock_timestamp(),
        clock_timestamp() + once_begin.lease, once_begin.ttl, once_begin.scope,
        clock_timestamp() + once_begin.lease + once_begin.ttl)
      on conflict do nothing
      returning * into o;
      if found then
        return turno.once_answer(o, 'fresh');
      end if;
      continue;
    end if;
    perform
    from turno.once t
    where t.key = once_begin.key
    for update skip locked;
    if not found then
      -- The same request, sent again while its first call ends, has its claim in a moment.
      if turn <= 20 then
        perform pg_sleep(0.002);
        continue;
      end if;
      -- Its answer is just being written, late, in another transaction; or it is just being taken, or swept.
      o.until := clock_timestamp();
      return turno.once_answer(o, 'in_flight');
    end if;
    update turno.once t
    set fingerprint  = once_begin.fingerprint,
        state        = 'running',
        token        = greatest(t.token + 1, turno.next_token()),
        -- A run that was given back does not count, and a new life begins with one.
        attempt      = case when now = 'unknown' then t.attempt + 1 when t.state = 'released' then t.attempt else 1 end,
        request      = coalesce(once_begin.request, gen_random_uuid()),
        worker       = once_begin.worker,
        began_at     = clock_timestamp(),
        until        = clock_timestamp() + once_begin.lease,
        ttl          = once_begin.ttl,
        waited_until = null,
        scope        = once_begin.scope,
        sweep_at     = clock_timestamp() + once_begin.lease + once_begin.ttl,
        answer       = null
    where t.key = once_begin.key
      and t.token = o.token
      and t.state = o.state
      and t.until = o.until
    returning * into o;
    if found then
      return turno.once_answer(o, 'fresh');
    end if;
  end loop;
  raise exception 'key % changes hands all the time', quote_literal(once_begin.key)
    using errcode = 'lock_not_available', hint = 'Try again in a moment.';
end
$$;

comment on function turno.once_begin is
  'Begins the work of a request, in a transaction of its own: fresh (do it, then once_complete with the claim), replay (its answer), in_flight, mismatch (same key, other content), unknown (an earlier run vanished half-way) or over_quota. A ttl of 0 keeps no answer.';

-- What arrived together: most keys are new, and are inserted together; the others are looked at one by one. Each has its
-- own request, by which its answer is known.
create or replace function turno.once_begin_batch(
  keys         text[],
  fingerprints text[],
  leases       interval[],
  ttls         interval[],
  unknowns     text[],
  workers      text[],
  waits        boolean[],
  scopes       text[],
  quotas       integer[],
  requests     uuid[]
) returns table (request uuid, answer turno.once_outcome)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- Another transaction must not keep the whole batch waiting: then each call is repeated alone.
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  many  integer   := cardinality(once_begin_batch.keys);
  -- Keys that have no row, and keys that are answered.
  new   boolean[] := array_fill(false, array[many]);
  done  boolean[] := array_fill(false, array[many]);
  rest  integer   := many;
  fresh uuid[]    := '{}';
  known record;
begin
  -- Answers that are there, and nothing to be written.
  for known in
    select a.request, a.place, o.key is null as new,
      case
        when turno.once_state(o) = 'done'
          and (o.fingerprint = a.fingerprint or o.fingerprint is null or a.fingerprint is null)
          then turno.once_answer(o, 'replay')
      end as answer
    from unnest(once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.requests)
      with ordinality a(key, fingerprint, request, place)
    left join turno.once o on o.key = a.key
  loop
    if known.new then
      new[known.place] := true;
    -- A row is null if all of it is, and not null only if none of it is.
    elsif not (known.answer is null) then
      done[known.place] := true;
      rest := rest - 1;
      request := known.request;
      answer := known.answer;
      return next;
    end if;
  end loop;
  if rest = 0 then
    return;
  end if;

  begin
    for known in
      insert into turno.once as t (
        key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, sweep_at)
      select distinct on (a.key)
        a.key, a.fingerprint, 'running',
        greatest(turno.next_token(), (select f.token + 1 from turno.lock_floor f)), 1, a.request, a.worker, clock_timestamp(),
        clock_timestamp() + a.lease, a.ttl, clock_timestamp() + a.lease + a.ttl
      from unnest(
        once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.leases, once_begin_batch.ttls,
        once_begin_batch.unknowns, once_begin_batch.workers, once_begin_batch.scopes, once_begin_batch.quotas,
        once_begin_batch.requests)
        with ordinality a(key, fingerprint, lease, ttl, unknown, worker, scope, quota, request, place)
      where new[a.place]
        and turno.once_is_plain(a.key, a.fingerprint, a.lease, a.ttl, a.unknown, a.worker, a.scope, a.quota)
      -- In order of their keys: two batches with the same ones must not wait for each other.
      order by a.key, a.place
      on conflict do nothing
      returning t.*
    loop
      fresh := fresh || known.request;
      request := known.request;
      answer := row(
        'fresh', known.key, known.token, known.attempt, null, known.began_at, known.until, known.until - clock_timestamp(),
        known.worker, known.key || '@' || known.token)::turno.once_outcome;
      return next;
    end loop;
    if cardinality(fresh) < rest then
      for known in
        select a.*
        from unnest(
          once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.leases, once_begin_batch.ttls,
          once_begin_batch.unknowns, once_begin_batch.workers, once_begin_batch.waits, once_begin_batch.scopes,
          once_begin_batch.quotas, once_begin_batch.requests)
          with ordinality a(key, fingerprint, lease, ttl, unknown, worker, waits, scope, quota, request, place)
        where not done[a.place]
          and a.request <> all (fresh)
        order by a.key, a.place
      loop
        request := known.request;
        answer := turno.once_begin(
          key => known.key, fingerprint => known.fingerprint, lease => known.lease, ttl => known.ttl,
          unknown => known.unknown, worker => known.worker, waits => known.waits, scope => known.scope,
          quota => known.quota, request => known.request);
        return next;
      end loop;
    end if;
  exception when lock_not_available then
    -- Rolled back: what was said since the block began is not so. Of two answers, the later one counts.
    for known in
      select r.request
      from unnest(once_begin_batch.requests) with ordinality r(request, place)
      where not done[r.place]
    loop
      request := known.request;
      answer := row('later', null, null, null, null, null, null, null, null, null)::turno.once_outcome;
      return next;
    end loop;
  end;
end
$$;

comment on function turno.once_begin_batch is
  'Many begins at once, each with its own request and an answer of its own (of two, the later one counts); outcome later: ask that one alone.';
