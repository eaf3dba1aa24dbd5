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
    -- Before an insert, which would wait for a transaction that writes the answer.
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
    -- If the answer was lost for longer than the lease, nothing of its own run was done: it begins again. The run was never extended,
    -- or it would have another request.
    if now = 'unknown' and once_begin.unknown = 'refuse' and o.request is distinct from once_begin.request then
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
        coalesce(once_begin.request, turno.no_request()), once_begin.worker, clock_timestamp(),
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
        -- A run that was given back or never began does not count, and a new life begins with one.
        attempt      = case
          when now = 'unknown' and t.request = once_begin.request then t.attempt
          when now = 'unknown' then t.attempt + 1
          when t.state = 'released' then t.attempt
          else 1
        end,
        request      = coalesce(once_begin.request, turno.no_request()),
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
    -- One by one, as in once_complete_batch.
    left join lateral (
      select *
      from turno.once t
      where t.key = a.key
      offset 0) o on true
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

-- Purpose: the end of a run: its answer, or that it was given back; and that it still goes on.
-- Index:   once_pkey.

-- The key and the token of a claim, as once_begin answered it.
create or replace function turno.once_claim(claim text, out key text, out token bigint)
language plpgsql
immutable
as $$
declare
  -- From the right: a key may have an @ of its own.
  digits text := split_part(claim, '@', -1);
begin
  -- Not by a pattern that counts, which costs more than the rest of the call.
  if claim is null or length(digits) not between 1 and 18 or digits ~ '[^0-9]' or digits = claim then
    raise exception 'claim is %, and looks like KEY@TOKEN', coalesce(quote_literal(left(claim, 100)), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give it as once_begin answered it.';
  end if;
  key := left(claim, -1 - length(digits));
  token := digits::bigint;
end
$$;

-- Calls those who wait for the answer, if any do.
create or replace function turno.once_notify(o turno.once) returns void
language plpgsql
as $$
begin
  if o.waited_until > clock_timestamp() then
    perform turno.wake('turno_once', 'once:' || o.key);
  end if;
end
$$;

create or replace function turno.once_check_ttl(ttl interval) returns void
language plpgsql
immutable
as $$
begin
  if ttl is not null and not ttl between '0' and '3660 days' then
    raise exception 'ttl is %, and must be between 0 and 10 years', ttl
      using errcode = 'invalid_parameter_value',
        hint = 'Give 0 to keep no answer, or leave it out for what was said at the beginning.';
  end if;
end
$$;

-- Counts a call that came too late, after another run has begun.
create or replace function turno.once_stale(key text, token bigint) returns void
language sql
as $$
  update turno.once t
  set late = t.late + 1
  where t.key = once_stale.key
    and t.token <> once_stale.token
$$;

-- An answer above 1 MiB must be within the owner's limit. A smaller one costs no look at the settings.
create or replace function turno.once_check_answer(answer text) returns void
language plpgsql
stable
as $$
begin
  if octet_length(answer) > 1048576 then
    perform turno.check_max_payload(2147483647, octet_length(answer));
  end if;
end
$$;

-- Ends a run. True if it is ended so now, and also if it was before: the answer to that may have been lost.
create or replace function turno.once_settle(
  key     text,
  token   bigint,
  state   text,
  answer  json,
  ttl     interval
) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  waited_until timestamptz;
begin
  update turno.once t
  set state    = once_settle.state,
      until    = clock_timestamp() + case once_settle.state when 'done' then coalesce(once_settle.ttl, t.ttl) else '0' end,
      -- Far enough already, unless the work took longer or its answer is kept longer than was said.
      sweep_at = greatest(t.sweep_at, clock_timestamp() + coalesce(once_settle.ttl, t.ttl)),
      answer   = once_settle.answer
  where t.key = once_settle.key
    and t.token = once_settle.token
    and t.state = 'running'
  returning t.waited_until into waited_until;
  if found then
    if waited_until > clock_timestamp() then
      perform turno.wake('turno_once', 'once:' || once_settle.key);
    end if;
    return true;
  end if;
  perform
  from turno.once t
  where t.key = once_settle.key
    and t.token = once_settle.token
    and t.state = once_settle.state;
  return found;
end
$$;

create or replace function turno.once_complete(
  claim  text,
  answer json     default null,
  ttl    interval default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c record;
begin
  if once_complete.ttl is not null then
    perform turno.once_check_ttl(once_complete.ttl);
  end if;
  if octet_length(once_complete.answer::text) > 1048576 then
    perform turno.once_check_answer(once_complete.answer::text);
  end if;
  c := turno.once_claim(once_complete.claim);
  if not turno.once_settle(c.key, c.token, 'done', once_complete.answer, once_complete.ttl) then
    raise exception 'claim % is stale: another run has begun, or it was released', quote_literal(once_complete.claim)
      using errcode = 'TN410', hint = 'Roll back: the answer that counts is another''s. Begin again to get it.';
  end if;
end
$$;

comment on function turno.once_complete is
  'Ends the work of a request with its answer, in this transaction: raises TN410 if the claim is stale, so that its effects go with it. Without an answer it is known that the work is done, and no more. ttl: how long the answer is kept, if not as long as once_begin said.';

-- What arrived together, each with an outcome of its own: done, stale, or later (ask that one alone).
create or replace function turno.once_complete_batch(
  keys    text[],
  tokens  bigint[],
  answers text[],
  ttls    interval[]
) returns table (place bigint, outcome text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  done  boolean[] := array_fill(false, array[cardinality(once_complete_batch.keys)]);
  ended record;
begin
  perform turno.once_check_ttl(t.ttl)
  from unnest(once_complete_batch.ttls) t(ttl)
  where t.ttl is not null;
  for ended in
    with asked as (
      select distinct on (a.key) a.*
      from unnest(
        once_complete_batch.keys, once_complete_batch.tokens, once_complete_batch.answers, once_complete_batch.ttls)
        with ordinality a(key, token, answer, ttl, place)
      -- A large one is completed alone, so that an error reaches its own caller only.
      where coalesce(octet_length(a.answer), 0) <= 1048576
      order by a.key, a.place),
    -- One by one (lateral) and changed where they were found (ctid). As a join, it would read all rows of the table after statistics
    -- that say that hardly any is running, which is the usual case.
    running as materialized (
      select a.*, k.at
      from asked a
      cross join lateral (
        select t.ctid as at
        from turno.once t
        where t.key = a.key
          and t.token = a.token
          and t.state = 'running'
        for no key update skip locked) k)
    update turno.once t
    set state    = 'done',
        until    = clock_timestamp() + coalesce(r.ttl, t.ttl),
        sweep_at = greatest(t.sweep_at, clock_timestamp() + coalesce(r.ttl, t.ttl)),
        answer   = r.answer::json
    from running r
    where t.ctid = r.at
    returning r.place, t.key, t.waited_until
  loop
    done[ended.place] := true;
    place := ended.place;
    outcome := 'done';
    if ended.waited_until > clock_timestamp() then
      perform turno.wake('turno_once', 'once:' || ended.key);
    end if;
    return next;
  end loop;

  for i in 1..cardinality(once_complete_batch.keys) loop
    continue when done[i];
    place := i;
    if octet_length(once_complete_batch.answers[i]) > 1048576 then
      outcome := 'later';
      return next;
      continue;
    end if;
    perform
    from turno.once t
    where t.key = once_complete_batch.keys[i]
    for no key update skip locked;
    if not found and exists (select from turno.once t where t.key = once_complete_batch.keys[i]) then
      outcome := 'later';
    elsif turno.once_settle(
      once_complete_batch.keys[i], once_complete_batch.tokens[i], 'done', once_complete_batch.answers[i]::json,
      once_complete_batch.ttls[i]) then
      outcome := 'done';
    else
      perform turno.once_stale(once_complete_batch.keys[i], once_complete_batch.tokens[i]);
      outcome := 'stale';
    end if;
    return next;
  end loop;
end
$$;

comment on function turno.once_complete_batch is
  'Many completions at once, each with an outcome of its own: done or stale; later: ask that one alone.';

create or replace function turno.once_release(
  claim   text,
  unknown boolean default false
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c record;
  o turno.once;
begin
  c := turno.once_claim(once_release.claim);
  if once_release.unknown then
    -- As if its lease had expired: its outcome is unknown.
    update turno.once t
    set until   = least(t.until, clock_timestamp()),
        request = turno.no_request()
    where t.key = c.key
      and t.token = c.token
      and t.state = 'running'
    returning * into o;
    if found then
      perform turno.once_notify(o);
      return true;
    end if;
  elsif turno.once_settle(c.key, c.token, 'released', null, null) then
    return true;
  end if;
  perform turno.once_stale(c.key, c.token);
  return false;
end
$$;

comment on function turno.once_release is
  'Gives a claim back: nothing was done, and the next one begins afresh. With unknown: something may have been done. False if the claim is stale.';

create or replace function turno.once_extend(
  claim text,
  lease interval default '30 seconds'
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c record;
begin
  if not coalesce(once_extend.lease between '1 millisecond' and '24 hours', false) then
    raise exception 'lease is %, and must be between 1 ms and 24 hours', coalesce(once_extend.lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Extend it again before it ends.';
  end if;
  c := turno.once_claim(once_extend.claim);
  -- Also after its expiry, if no other run has begun. Its caller has got the answer to once_begin, so a repetition of that call must
  -- not begin again.
  update turno.once t
  set until    = greatest(t.until, clock_timestamp() + once_extend.lease),
      sweep_at = greatest(t.sweep_at, clock_timestamp() + once_extend.lease),
      request  = turno.no_request()
  where t.key = c.key
    and t.token = c.token
    and t.state = 'running';
  return found;
end
$$;

comment on function turno.once_extend is
  'Says that the work still goes on: the claim lasts for lease from now, or as long as it did. False if it is stale.';

-- Purpose: the state of once keys for operators, and how they resolve unknown ones.
-- Index:   once_pkey, once_open.

create or replace function turno.once_shown(o turno.once) returns turno.once_view
language sql
volatile
as $$
  select row(
    o.key, turno.once_state(o), o.key || '@' || o.token, o.attempt, o.fingerprint, o.worker, o.scope, o.began_at,
    o.until, o.late, o.answer)::turno.once_view
$$;

create or replace function turno.once_status(key text) returns setof turno.once_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform turno.check_name('key', once_status.key, 255);
  return query
    select (turno.once_shown(o)).*
    from turno.once o
    where o.key = once_status.key
      and turno.once_state(o) <> 'gone';
end
$$;

comment on function turno.once_status is
  'What is known of a key: in_flight, done or unknown, with its answer; no row if nothing is.';

-- Answers are left out: a page of them may be large.
create or replace function turno.once_list(
  state   text    default null,
  prefix  text    default '',
  after   text    default '',
  "limit" integer default 100
) returns setof turno.once_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  page integer := least(greatest(coalesce(once_list."limit", 100), 1), 1000);
begin
  if once_list.state is not null and once_list.state not in ('in_flight', 'done', 'unknown') then
    raise exception 'state is %, and must be in_flight, done or unknown', quote_literal(once_list.state)
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for all.';
  end if;
  -- Kept answers may be millions, and what is open a few: these are found by an index of their own. The planner takes it
  -- only if its condition is part of the statement.
  return query execute
    $query$
      select
        o.key, s.state, o.key || '@' || o.token, o.attempt, o.fingerprint, o.worker, o.scope, o.began_at, o.until, o.late,
        null::json
      from turno.once o
      cross join lateral (select turno.once_state(o) as state) s
      where o.key > $1
        and o.key >= $2
        and starts_with(o.key, $2)
        and s.state <> 'gone'
        and ($3 is null or s.state = $3)
    $query$
    || case when once_list.state in ('in_flight', 'unknown') then $open$ and o.state = 'running' $open$ else '' end
    || 'order by o.key limit $4'
    using coalesce(once_list.after, ''), coalesce(once_list.prefix, ''), once_list.state, page;
end
$$;

comment on function turno.once_list is
  'A page of the keys whose requests are in flight, done or unknown, in order; the next page begins after the last key of this one. Without the answers.';

create or replace function turno.once_forget(
  key    text,
  "user" text default null,
  reason text default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  high bigint;
begin
  perform turno.check_name('key', once_forget.key, 255);
  perform turno.operator_action_check(once_forget."user", once_forget.reason);
  delete from turno.once o
  where o.key = once_forget.key
    and turno.once_state(o) in ('done', 'unknown')
  returning o.token into high;
  -- The next run gets a higher token, although the row is gone.
  update turno.lock_floor f
  set token = high
  where f.token < high;
  perform turno.operator_action_record(
    'once', 'forgotten', once_forget.key, (high is not null)::integer, once_forget."user", once_forget.reason);
  return high is not null;
end
$$;

comment on function turno.once_forget is
  'Forgets a key whose request is done or unknown, for an operator: the next call does the work (again). False if there is nothing to forget, or the work is in flight. The user and the reason go into the history.';

create or replace function turno.once_resolve(
  key    text,
  answer json default null,
  "user" text default null,
  reason text default null
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
  perform turno.check_name('key', once_resolve.key, 255);
  perform turno.operator_action_check(once_resolve."user", once_resolve.reason);
  perform turno.once_check_answer(once_resolve.answer::text);
  -- Waits for a late answer that is being written: if that is committed, it counts.
  select * into o
  from turno.once t
  where t.key = once_resolve.key
  for no key update;
  now := case when found then turno.once_state(o) else 'gone' end;
  if now = 'gone' then
    return row('not_found', once_resolve.key, null, null, null, null, null, null, null, null)::turno.once_outcome;
  end if;
  if now <> 'unknown' then
    return turno.once_answer(o, case now when 'done' then 'answered' else now end);
  end if;
  update turno.once t
  set state    = 'done',
      -- A new token: the claim of the lost run is stale.
      token    = greatest(t.token + 1, turno.next_token()),
      until    = clock_timestamp() + t.ttl,
      sweep_at = greatest(t.sweep_at, clock_timestamp() + t.ttl),
      answer   = once_resolve.answer
  where t.key = once_resolve.key
  returning * into o;
  perform turno.once_notify(o);
  perform turno.operator_action_record('once', 'resolved', once_resolve.key, 1, once_resolve."user", once_resolve.reason);
  return turno.once_answer(o, 'resolved');
end
$$;

comment on function turno.once_resolve is
  'Says, for an operator, that the work of an unknown key was done, with its answer. The outcome is resolved; in_flight (a run has a live lease), answered or not_found: then nothing was changed. The user and the reason go into the history.';
