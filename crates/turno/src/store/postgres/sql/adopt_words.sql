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
create or replace function turno.adopt_words(a turno.adopted) returns text[]
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
