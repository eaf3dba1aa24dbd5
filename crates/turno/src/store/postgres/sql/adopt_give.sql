-- Purpose: the functions by which a row of an adopted table is given back, as templates: see adopt_words.
-- Index:   the id's own.
--
-- With a token, only the holder of the newest lock changes anything; whoever was overtaken is told false. Sent again
-- because the answer was lost, a release finds its own token and its own effect, and is told true again. The seed's
-- functions know no token: they end whoever's lock it is, and can only refuse if there is none.

create or replace function turno.adopt_give() returns setof turno.adopt_function
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
  'Marks a row as processed and unlocks it, whoever locked it: after a timeout that may be somebody else. Prefer the one with p_token.'
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
  'Records why processing failed and unlocks the row, whoever locked it. Prefer the one with p_token.'
)
$file$;
