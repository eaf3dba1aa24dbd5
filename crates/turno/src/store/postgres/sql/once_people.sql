-- Purpose: what people see of requests, and how they decide what is unknown.
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
  perform turno.deed_check(once_forget."user", once_forget.reason);
  delete from turno.once o
  where o.key = once_forget.key
    and turno.once_state(o) in ('done', 'unknown')
  returning o.token into high;
  -- Whoever begins next is above it, though the row is gone.
  update turno.lock_floor f
  set token = high
  where f.token < high;
  perform turno.deed_record(
    'once', 'forgotten', once_forget.key, (high is not null)::integer, once_forget."user", once_forget.reason);
  return high is not null;
end
$$;

comment on function turno.once_forget is
  'Forgets a key whose request is done or unknown, for a person: whoever asks next does the work (again). False if there is nothing to forget, or the work is in flight. The user and the reason go into the history.';

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
  perform turno.deed_check(once_resolve."user", once_resolve.reason);
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
    return turno.once_told(o, case now when 'done' then 'answered' else now end);
  end if;
  update turno.once t
  set state    = 'done',
      -- A new token: the claim of the run that vanished is stale.
      token    = greatest(t.token + 1, turno.lock_tick()),
      until    = clock_timestamp() + t.ttl,
      sweep_at = greatest(t.sweep_at, clock_timestamp() + t.ttl),
      answer   = once_resolve.answer
  where t.key = once_resolve.key
  returning * into o;
  perform turno.once_call(o);
  perform turno.deed_record('once', 'resolved', once_resolve.key, 1, once_resolve."user", once_resolve.reason);
  return turno.once_told(o, 'resolved');
end
$$;

comment on function turno.once_resolve is
  'Says, for an operator, that the work of an unknown key was done, with its answer. The outcome is resolved; in_flight (a run has a live lease), answered or not_found: then nothing was changed. The user and the reason go into the history.';
