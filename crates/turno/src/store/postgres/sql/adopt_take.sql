-- Purpose: the functions by which a row of an adopted table is taken, as templates: see adopt_words.
-- Index:   the id's own; <table>_turno_waiting for those that look for rows.
--
-- A row is free if it is not processed, and not locked or locked for longer than the timeout. Nobody waits for a row
-- that somebody is just changing: that one counts as taken ("no key", because a row that is merely referred to by
-- another's insert is as free as any). The clock is read before the rows are: at the worst a lock lives a little longer.

create or replace function turno.adopt_take() returns setof turno.adopt_function
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
  'Locks a row for processing and answers the token that releases it; null if it is locked by somebody else, or processed already.'
),
(
  'acquire_processing_lock',
  '%3$s %4$s, p_lock_timeout_minutes integer default 15', '%4$s, integer', 'boolean', 'plpgsql',
  $body$
begin
  return %9$s(%3$s, make_interval(mins => p_lock_timeout_minutes)) is not null;
end
$body$,
  'Locks a row for processing: true, or false if it is locked by somebody else or processed already. It answers no token, so a release cannot tell whose lock it ends: prefer acquire_processing_lock_token.'
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
