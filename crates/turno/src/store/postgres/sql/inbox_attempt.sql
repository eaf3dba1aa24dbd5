-- Purpose: what an attempt that did not succeed does to its item, whoever says so.
-- Index:   inbox_item_pkey.

-- An error's text as it is kept: at most 4000 bytes of it, and no half character. A byte that continues one begins with
-- the bits 10.
create or replace function turno.inbox_cut(error text) returns text
language sql
immutable
as $$
  select case
    when octet_length(b.bytes) <= 4000 then error
    else (
      select convert_from(substr(b.bytes, 1, n), 'UTF8')
      from generate_series(4000, 3997, -1) n
      where get_byte(b.bytes, n) & 192 <> 128
      order by n desc
      limit 1)
  end
  from convert_to(error, 'UTF8') b(bytes)
$$;

-- Kept: the last ten.
create or replace function turno.inbox_errors(errors jsonb, attempt integer, kind text, error text, worker text) returns jsonb
language sql
volatile
as $$
  select jsonb_agg(e.e order by e.n)
  from (
    select u.e, u.n
    from jsonb_array_elements(
      coalesce(errors, '[]') || jsonb_build_object(
        'attempt', attempt, 'at', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'kind', kind, 'error', error, 'worker', worker)) with ordinality u(e, n)
    order by u.n desc
    limit 10) e
$$;

-- What is recorded of the attempt of a worker that vanished.
create or replace function turno.inbox_vanished() returns text
language sql
immutable
as $$
  select 'the worker vanished: its claim was not extended in time'
$$;

-- How many to add for one more doubt (an attempt whose outcome is unknown): 1, or 0 from a million on. Doubts saturate, and
-- attempts is always the sum of the failed and the doubtful ones, so no counter overflows.
create or replace function turno.inbox_doubt(abandoned integer) returns integer
language sql
immutable
as $$
  select (abandoned < 1000000)::integer
$$;

-- Counts the attempt, and puts the item off until again_at, or (null, or no attempts left) aside. Answers its group. With
-- max_attempts = 0 there is no limit: only a null again_at puts the item aside.
create or replace function turno.inbox_end_attempt(
  lane     integer,
  id       bigint,
  kind     text,
  error    text,
  worker   text,
  again_at timestamptz
) returns text
language plpgsql
as $$
#variable_conflict use_column
declare
  i     turno.inbox_item;
  doubt integer;
begin
  select * into i
  from turno.inbox_item t
  where t.lane = inbox_end_attempt.lane
    and t.id = inbox_end_attempt.id
  for update;
  if not found then
    return null;
  end if;
  if inbox_end_attempt.kind = 'abandoned' then
    doubt := turno.inbox_doubt(i.abandoned);
    i.attempts := i.attempts + doubt;
    i.abandoned := i.abandoned + doubt;
  else
    i.attempts := i.attempts + 1;
  end if;
  i.errors := turno.inbox_errors(
    i.errors, i.attempts, inbox_end_attempt.kind, inbox_end_attempt.error, inbox_end_attempt.worker);
  if inbox_end_attempt.again_at is not null and (i.max_attempts = 0 or i.attempts < i.max_attempts) then
    update turno.inbox_item t
    set run_at    = inbox_end_attempt.again_at,
        attempts  = i.attempts,
        abandoned = i.abandoned,
        errors    = i.errors
    where t.lane = i.lane
      and t.id = i.id;
    insert into turno.inbox_tally (queue_id, timed)
    values (i.lane / 4, 1);
    return i."group";
  end if;
  delete from turno.inbox_item t
  where t.lane = i.lane
    and t.id = i.id;
  insert into turno.inbox_failed (
    id, lane, failed_at, pushed_at, attempts, abandoned, max_attempts, "group", key, errors, payload, worker)
  values (
    i.id, i.lane, clock_timestamp(), i.pushed_at, i.attempts, i.abandoned, i.max_attempts, i."group", i.key, i.errors,
    i.payload, inbox_end_attempt.worker);
  insert into turno.inbox_tally (queue_id, items, failed)
  values (i.lane / 4, -1, 1);
  return i."group";
end
$$;

-- Ends the attempts of one expired claim, each by itself. An item whose attempt cannot be ended is put off for a minute and
-- not counted, so that the others are not held up. Answers the groups of the items.
create or replace function turno.inbox_abandon_each(lane integer, ids int8multirange, worker text) returns text[]
language plpgsql
as $$
#variable_conflict use_column
declare
  item     bigint;
  of_item  text;
  groups   text[] := '{}';
begin
  for item in
    select i.id
    from unnest(inbox_abandon_each.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
  loop
    begin
      of_item := turno.inbox_end_attempt(
        inbox_abandon_each.lane, item, 'abandoned', turno.inbox_vanished(), inbox_abandon_each.worker, clock_timestamp());
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        raise warning 'the attempt at item % could not be ended: %', item, sqlerrm
          using hint = 'The item is tried again in a minute. Other items are claimed as usual.';
        of_item := null;
        with back as (
          update turno.inbox_item t
          set run_at = clock_timestamp() + interval '1 minute'
          where t.lane = inbox_abandon_each.lane
            and t.id = item
          returning t."group"),
        counted as (
          insert into turno.inbox_tally (queue_id, timed)
          select inbox_abandon_each.lane / 4, 1
          from back)
        select b."group" into of_item
        from back b;
    end;
    groups := groups || of_item;
  end loop;
  return groups;
end
$$;

-- Takes over claims whose time is up: some of them, if they are very many, for whoever claims is kept waiting. Answers
-- when there will be the next one.
create or replace function turno.inbox_abandon(queue_id integer) returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
declare
  b    turno.inbox_batch;
  many bigint := 0;
  groups text[];
  next timestamptz;
begin
  for b in
    select *
    from turno.inbox_batch t
    where t.queue_id = inbox_abandon.queue_id
      and t.until <= clock_timestamp()
    -- What was claimed first comes first again.
    order by t.n
    for update skip locked
  loop
    if many >= 1000 then
      return clock_timestamp();
    end if;
    -- One bad item must not fail the claim of all others: then each one is ended by itself.
    begin
      groups := array(
        select turno.inbox_end_attempt(
          b.lane, i.id, 'abandoned', turno.inbox_vanished(), b.worker, clock_timestamp())
        from unnest(b.ids) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i(id));
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        groups := turno.inbox_abandon_each(b.lane, b.ids, b.worker);
    end;
    groups := array_remove(groups, null);
    if groups <> '{}' then
      perform turno.inbox_free(null, array_fill(inbox_abandon.queue_id, array[cardinality(groups)]), groups);
    end if;
    many := many + turno.inbox_count(b.ids);
    delete from turno.inbox_batch t
    where t.token = b.token
      and t.lane = b.lane;
  end loop;
  select min(t.until) into next
  from turno.inbox_batch t
  where t.queue_id = inbox_abandon.queue_id;
  -- One that is just being settled is looked at again soon.
  return case when next is null then 'infinity' else greatest(next, clock_timestamp() + '100 milliseconds') end;
end
$$;
