-- Purpose: the functions of an adopted table whose rows have one flag, as templates: see adopt_words.
-- Index:   the id's own.
--
-- Whoever turns the flag has the row. An update that is under way elsewhere is not waited for: until that transaction
-- ends, the row is its own. There is no timeout and no token here. A flag that was committed by a process that died
-- stays until somebody takes it back, so keep the mark and the work in one transaction, or adopt with shape processing.

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
  'Marks a row: 1, or 0 if somebody else has marked it or is about to.'
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
  'How many rows are not marked, and marked. Looks at every row.'
)
$file$;
