-- Purpose: the functions by which people look after an adopted table, as templates: see adopt_words.
-- Index:   <table>_turno_processing for what is locked. Counting looks at every row.

create or replace function turno.adopt_tidy() returns setof turno.adopt_function
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
  'How many rows are waiting, locked, processed, and failed. Looks at every row.'
)
$file$;
