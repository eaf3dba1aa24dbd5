-- The functions that an adopted table gets, as templates.

-- Purpose: the words that the templates of adopted tables' functions are filled with. This is the one place on
--          PostgreSQL that puts names into quotes.
-- Index:   none.

-- Letters, digits and underscores only, because it becomes part of functions' and parameters' names.
create or replace function turno.adopt_slug(name text) returns text
language sql
immutable
as $$
  select coalesce(nullif(trim('_' from regexp_replace(lower(adopt_slug.name), '[^a-z0-9]+', '_', 'g')), ''), 'row')
$$;

-- notes: note; entries: entry; boxes: box. A word that merely ends like a plural stays as it is.
create or replace function turno.adopt_singular(word text) returns text
language sql
immutable
as $$
  select case
    when word ~ '[^aeiou]ies$' then regexp_replace(word, 'ies$', 'y')
    when word ~ '(ss|x|ch|sh)es$' then regexp_replace(word, 'es$', '')
    when word ~ '(ss|us|is)$' then word
    else regexp_replace(word, '(.)s$', '\1')
  end
$$;

-- The name of a function of an adopted table; {table} becomes the table's own name, cut to what still fits.
create or replace function turno.adopt_function_name(a turno.adopted, base text) returns text
language sql
immutable
as $$
  select replace(n.name, '{table}', left(turno.adopt_slug(a.table_name), 63 - length(n.name) + length('{table}')))
  from (select base || case when a.suffix = '' then '' else '_' || a.suffix end) n (name)
$$;

-- An index belongs to one table, whose whole name cannot always be part of the index's own.
create or replace function turno.adopt_index_name(a turno.adopted, what text) returns text
language sql
immutable
as $$
  select case
    when octet_length(a.table_name) <= 40 then a.table_name
    else left(turno.adopt_slug(a.table_name), 30) || '_' || left(md5(a.table_name), 8)
  end || '_turno_' || what
$$;

-- The type of a column as it is written anywhere, without its length.
create or replace function turno.adopt_type(a turno.adopted, name text) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select format_type(c.atttypid, -1)
  from pg_attribute c
  where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
    and c.attname = adopt_type.name
    and not c.attisdropped
$$;

-- How much of an error fits: users may have a column of their own for it.
create or replace function turno.adopt_error_length(a turno.adopted) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (select least(c.atttypmod - 4, 4000)
    from pg_attribute c
    where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
      and c.attname = 'error_message'
      and c.atttypmod > 4),
    4000)::text
$$;

-- Users may have a column of their own for the attempts too, and only one that is never null lets the index end the search.
create or replace function turno.adopt_attempts_left(a turno.adopted) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when exists (
      select
      from pg_attribute c
      where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
        and c.attname = 'processing_attempts'
        and not c.attnotnull
        and not c.attisdropped)
    then format('coalesce(t.processing_attempts, 0) < %s', a.max_attempts)
    else format('t.processing_attempts < %s', a.max_attempts)
  end
$$;

-- %1$s table, %2$s id column, %3$s its parameter, %4$s its type, %5$s condition on the user, %6$s type of the user,
-- %7$s length of errors, %8$s condition on the attempts; the functions that others call: %9$s acquire, %10$s next, %11$s cleanup, %12$s reset.
create or replace function turno.adopt_placeholders(a turno.adopted) returns text[]
language sql
stable
as $$
  select array[
    format('%I.%I', a.schema_name, a.table_name),
    format('%I', a.id_column),
    case a.shape
      when 'processed' then 'p_id'
      else format('%I', 'p_' || left(turno.adopt_singular(turno.adopt_slug(a.table_name)), 58) || '_id')
    end,
    turno.adopt_type(a, a.id_column),
    case when a.user_column is null then 'true' else format('(p_user_id is null or t.%I = p_user_id)', a.user_column) end,
    coalesce(turno.adopt_type(a, a.user_column), 'text'),
    turno.adopt_error_length(a),
    turno.adopt_attempts_left(a),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'acquire_processing_lock_token')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'get_next_{table}_for_processing_token')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'cleanup_abandoned_processing_locks_after')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'reset_stuck_processing_after'))]
$$;

-- Purpose: the functions by which a row of an adopted table is taken, as templates: see adopt_placeholders.
-- Index:   the id's own; <table>_turno_waiting for those that look for rows.
--
-- A row is free if it is not processed, and not locked or locked for longer than the timeout. No call waits for a row
-- that another transaction is changing: that row counts as locked ("no key", because a foreign key reference to a row does not
-- lock it). The clock is read before the rows, so a lock may last a little longer.

create or replace function turno.adopt_acquire() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'acquire_processing_lock_token',
  '%3$s %4$s, p_lock_timeout interval default ''15 minutes''', '%4$s, interval', 'bigint', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - p_lock_timeout;
  token  bigint;
begin
  if p_lock_timeout is null or p_lock_timeout <= '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = 'timeout is ' || coalesce(p_lock_timeout::text, 'null') || ', and must be above 0',
      hint    = 'Give the longest time that the work can take.';
  end if;
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.%2$s = %3$s
      and t.processed_at is null
      and (t.processing_started_at is null or t.processing_started_at <= cutoff)
    for no key update skip locked)
  update %1$s t
  set processing_started_at = clock_timestamp(),
      processing_attempts   = coalesce(t.processing_attempts, 0) + 1,
      processing_token      = greatest(
        coalesce(t.processing_token, 0) + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
  from free f
  where t.%2$s = f.id
  returning t.processing_token into token;
  return token;
end
$body$,
  'Locks a row for processing and answers the token that releases it; null if another caller has locked it, or it is processed already.'
),
(
  'acquire_processing_lock',
  '%3$s %4$s, p_lock_timeout_minutes integer default 15', '%4$s, integer', 'boolean', 'plpgsql',
  $body$
begin
  return %9$s(%3$s, make_interval(mins => p_lock_timeout_minutes)) is not null;
end
$body$,
  'Locks a row for processing: true, or false if another caller has locked it or it is processed already. It answers no token, so a release cannot tell whose lock it ends: prefer acquire_processing_lock_token.'
),
(
  'get_next_{table}_for_processing_token',
  'p_user_id %6$s default null, p_limit integer default 10, p_lock_timeout interval default ''15 minutes''',
  '%6$s, integer, interval', 'setof %1$s', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - p_lock_timeout;
begin
  if p_lock_timeout is null or p_lock_timeout <= '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = 'timeout is ' || coalesce(p_lock_timeout::text, 'null') || ', and must be above 0',
      hint    = 'Give the longest time that the work can take.';
  end if;
  return query
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.processed_at is null
      and (t.processing_started_at is null or t.processing_started_at <= cutoff)
      and %8$s
      and %5$s
    order by t.processing_attempts, t.%2$s
    limit greatest(coalesce(p_limit, 10), 0)
    for no key update skip locked),
  taken as (
    update %1$s t
    set processing_started_at = clock_timestamp(),
        processing_attempts   = coalesce(t.processing_attempts, 0) + 1,
        processing_token      = greatest(
          coalesce(t.processing_token, 0) + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
    from free f
    where t.%2$s = f.id
    returning t.*)
  select n.*
  from taken n
  order by n.processing_attempts, n.%2$s;
end
$body$,
  'Locks and answers rows that are free, those tried least often first; processing_token of each is what releases it.'
),
(
  'get_next_{table}_for_processing',
  'p_user_id %6$s default null, p_limit integer default 10, p_lock_timeout_minutes integer default 15',
  '%6$s, integer, integer', 'setof %1$s', 'sql',
  $body$
-- Not plpgsql, which would remember the columns that the table has now.
select *
from %10$s(p_user_id, p_limit, make_interval(mins => p_lock_timeout_minutes))
$body$,
  'Locks and answers rows that are free, those tried least often first; processing_token of each is what releases it.'
)
$file$;

-- Purpose: the functions by which a row of an adopted table is given back, as templates: see adopt_placeholders.
-- Index:   the id's own.
--
-- With a token, only the holder of the newest lock changes anything; for an older token the result is false. A release that is
-- repeated because its response was lost finds its own token and its own effect, and returns true again. The functions without a
-- token end the lock of any holder, and return false only if there is none.

create or replace function turno.adopt_release() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'release_processing_lock', '%3$s %4$s, p_token bigint', '%4$s, bigint', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set processed_at          = clock_timestamp(),
      processing_started_at = null,
      error_message         = null
  where t.%2$s = %3$s
    and t.processing_token = p_token
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found or exists (
    select
    from %1$s t
    where t.%2$s = %3$s
      and t.processing_token = p_token
      and t.processed_at is not null);
end
$body$,
  'Marks a row as processed and unlocks it. False, and nothing changed, if the token is no longer that of the lock.'
),
(
  'release_processing_lock', '%3$s %4$s', '%4$s', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set processed_at          = clock_timestamp(),
      processing_started_at = null,
      error_message         = null
  where t.%2$s = %3$s
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found;
end
$body$,
  'Marks a row as processed and unlocks it, also if another caller has locked it after a timeout. Prefer the one with p_token.'
),
(
  'release_processing_lock_with_error', '%3$s %4$s, p_error_message text, p_token bigint', '%4$s, text, bigint', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  error text := left(coalesce(nullif(p_error_message, ''), 'no error message was given'), %7$s);
begin
  update %1$s t
  set error_message         = error,
      processing_started_at = null
  where t.%2$s = %3$s
    and t.processing_token = p_token
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found or exists (
    select
    from %1$s t
    where t.%2$s = %3$s
      and t.processing_token = p_token
      and t.processing_started_at is null
      and t.processed_at is null
      and t.error_message = error);
end
$body$,
  'Records why processing failed and unlocks the row. False, and nothing changed, if the token is no longer that of the lock.'
),
(
  'release_processing_lock_with_error', '%3$s %4$s, p_error_message text', '%4$s, text', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set error_message         = left(coalesce(nullif(p_error_message, ''), 'no error message was given'), %7$s),
      processing_started_at = null
  where t.%2$s = %3$s
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found;
end
$body$,
  'Records why processing failed and unlocks the row, also if another caller has locked it. Prefer the one with p_token.'
)
$file$;

-- Purpose: the functions by which operators maintain an adopted table, as templates: see adopt_placeholders.
-- Index:   <table>_turno_processing for what is locked. Counting looks at every row.

create or replace function turno.adopt_cleanup() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'cleanup_abandoned_processing_locks_after', 'p_timeout interval', 'interval', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff  timestamptz := clock_timestamp() - greatest(p_timeout, '0');
  cleaned integer;
begin
  with gone as (
    select t.%2$s as id
    from %1$s t
    where t.processing_started_at <= cutoff
      and t.processed_at is null
    for no key update skip locked)
  update %1$s t
  set processing_started_at = null,
      error_message         = left('abandoned: not released within ' || p_timeout, %7$s)
  from gone g
  where t.%2$s = g.id;
  get diagnostics cleaned = row_count;
  return cleaned;
end
$body$,
  'Unlocks what has been locked for longer than p_timeout, and records that as the error. Answers how many. Tidiness only: an old lock is taken over in any case.'
),
(
  'cleanup_abandoned_processing_locks', 'p_timeout_minutes integer default 15', 'integer', 'integer', 'plpgsql',
  $body$
begin
  return %11$s(make_interval(mins => p_timeout_minutes));
end
$body$,
  'Unlocks what has been locked for longer than p_timeout_minutes, and records that as the error. Answers how many.'
),
(
  'reset_stuck_processing_after', 'p_timeout interval default ''15 minutes'', p_all boolean default false', 'interval, boolean', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff   timestamptz := clock_timestamp() - greatest(p_timeout, '0');
  how_many integer;
begin
  update %1$s t
  set processing_started_at = null,
      processing_attempts   = case when p_all then 0 else t.processing_attempts end,
      error_message         = case when p_all then null else t.error_message end
  where t.processed_at is null
    and (t.processing_started_at <= cutoff
      or p_all and (t.processing_started_at is not null or t.error_message is not null or t.processing_attempts > 0));
  get diagnostics how_many = row_count;
  return how_many;
end
$body$,
  'Unlocks what has been locked for longer than p_timeout; with p_all, makes every row that is not processed as new. Answers how many.'
),
(
  'reset_stuck_processing', 'p_all boolean default false, p_timeout_minutes integer default 15', 'boolean, integer', 'integer', 'plpgsql',
  $body$
begin
  return %12$s(make_interval(mins => p_timeout_minutes), p_all);
end
$body$,
  'Unlocks what has been locked for longer than p_timeout_minutes; with p_all, makes every row that is not processed as new. Answers how many.'
),
(
  'get_processing_stats', 'p_user_id %6$s default null', '%6$s',
  'table (total bigint, pending bigint, processing bigint, completed bigint, failed bigint)', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  return query
  select
    count(*),
    count(*) filter (where t.processed_at is null and t.processing_started_at is null and t.error_message is null),
    count(*) filter (where t.processed_at is null and t.processing_started_at is not null),
    count(*) filter (where t.processed_at is not null),
    count(*) filter (where t.processed_at is null and t.processing_started_at is null and t.error_message is not null)
  from %1$s t
  where %5$s;
end
$body$,
  'Numbers of rows that are waiting, locked, processed, and failed. Reads every row.'
)
$file$;

-- Purpose: the functions of an adopted table whose rows have one flag, as templates: see adopt_placeholders.
-- Index:   the id's own.
--
-- The caller that sets the flag has the row. The functions do not wait for an update in another transaction: until that
-- transaction ends, the row counts as marked. There is no timeout and no token here. A flag that was committed by a process that died
-- stays until it is unmarked, so keep the mark and the work in one transaction, or adopt with shape processing.

create or replace function turno.adopt_mark() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'try_mark_as_processing', '%3$s %4$s', '%4$s', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  marked integer;
begin
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.%2$s = %3$s
      and t.processed is not true
    for no key update skip locked)
  update %1$s t
  set processed    = true,
      processed_at = clock_timestamp()
  from free f
  where t.%2$s = f.id;
  get diagnostics marked = row_count;
  return marked;
end
$body$,
  'Marks a row: 1, or 0 if another caller has marked it or is about to.'
),
(
  'mark_as_unprocessed', '%3$s %4$s', '%4$s', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  unmarked integer;
begin
  update %1$s t
  set processed    = false,
      processed_at = null
  where t.%2$s = %3$s
    and t.processed;
  get diagnostics unmarked = row_count;
  return unmarked;
end
$body$,
  'Takes a mark back, so that the row is processed again: 1, or 0 if it was not marked.'
),
(
  'get_processing_stats', 'p_user_id %6$s default null', '%6$s',
  'table (total bigint, pending bigint, processing bigint, completed bigint, failed bigint)', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  return query
  select
    count(*),
    count(*) filter (where t.processed is not true),
    0::bigint,
    count(*) filter (where t.processed),
    0::bigint
  from %1$s t
  where %5$s;
end
$body$,
  'Numbers of rows that are not marked, and marked. Reads every row.'
)
$file$;
