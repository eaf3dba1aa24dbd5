-- How a run ends; what operators and dashboards call for once keys.

-- Purpose: the end of a run: its answer, or that it was given back; and that it still goes on.
-- Index:   once_pkey.

-- The key and the token of a claim, as once_begin answered it.
create or replace function turno.once_claim(claim text, out key text, out token bigint)
language plpgsql
immutable
as $$
begin
  -- From the right: a key may have an @ of its own.
  if claim is null or claim !~ '@[0-9]{1,18}$' then
    raise exception 'claim is %, and looks like KEY@TOKEN', coalesce(quote_literal(left(claim, 100)), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give it as once_begin answered it.';
  end if;
  key := regexp_replace(claim, '@[0-9]+$', '');
  token := substring(claim from '@([0-9]+)$')::bigint;
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
  o turno.once;
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
  returning * into o;
  if found then
    perform turno.once_notify(o);
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
  perform turno.once_check_ttl(once_complete.ttl);
  perform turno.once_check_answer(once_complete.answer::text);
  select * into c
  from turno.once_claim(once_complete.claim);
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
    running as materialized (
      select a.*
      from asked a
      join turno.once k on k.key = a.key
      where k.token = a.token
        and k.state = 'running'
      for no key update of k skip locked)
    update turno.once t
    set state    = 'done',
        until    = clock_timestamp() + coalesce(r.ttl, t.ttl),
        sweep_at = greatest(t.sweep_at, clock_timestamp() + coalesce(r.ttl, t.ttl)),
        answer   = r.answer::json
    from running r
    where t.key = r.key
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
  select * into c
  from turno.once_claim(once_release.claim);
  if once_release.unknown then
    -- As if its lease had expired: its outcome is unknown.
    update turno.once t
    set until = least(t.until, clock_timestamp())
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
  select * into c
  from turno.once_claim(once_extend.claim);
  -- Also after its expiry, if no other run has begun.
  update turno.once t
  set until    = greatest(t.until, clock_timestamp() + once_extend.lease),
      sweep_at = greatest(t.sweep_at, clock_timestamp() + once_extend.lease)
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
