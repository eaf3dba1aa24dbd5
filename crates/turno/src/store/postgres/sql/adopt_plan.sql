-- Purpose: what has to be done to adopt a table, as statements: adopt runs them, and adopt_print shows them.
-- Index:   adopted_pkey.

create or replace function turno.adopt_columns(shape text)
returns table (name text, definition text, types text[])
language sql
immutable
as $$
  -- No default needs a rewrite of the table: they are constants, or null.
  select c.name, c.definition, c.types
  from (values
    ('processing', 'processing_started_at', 'timestamptz', array['timestamptz']),
    ('processing', 'processed_at', 'timestamptz', array['timestamptz', 'timestamp']),
    ('processing', 'processing_attempts', 'integer not null default 0', array['int4', 'int8']),
    ('processing', 'error_message', 'text', array['text', 'varchar']),
    ('processing', 'processing_token', 'bigint', array['int8']),
    ('processed', 'processed', 'boolean not null default false', array['bool']),
    ('processed', 'processed_at', 'timestamptz', array['timestamptz', 'timestamp'])
  ) c (shape, name, definition, types)
  where c.shape = adopt_columns.shape
$$;

-- A column that carries this comment was added by adopt; one that has lost it is somebody else's.
create or replace function turno.adopt_sign() returns text
language sql
immutable
as $$
  select 'Added by turno adopt'
$$;

create or replace function turno.adopt_is_signed(t regclass, name text) returns boolean
language sql
stable
as $$
  select exists (
    select
    from pg_attribute c
    where c.attrelid = adopt_is_signed.t
      and c.attname = adopt_is_signed.name
      and not c.attisdropped
      and col_description(c.attrelid, c.attnum) = turno.adopt_sign())
$$;

-- The columns that are missing. One that is there is used as it is, if its type will do.
create or replace function turno.adopt_missing(t regclass, shape text) returns text[]
language plpgsql
stable
as $$
declare
  missing text[] := '{}';
  c       record;
  found_type text;
begin
  for c in
    select *
    from turno.adopt_columns(adopt_missing.shape)
  loop
    select y.typname::text into found_type
    from pg_attribute a
    join pg_type y on y.oid = a.atttypid
    where a.attrelid = adopt_missing.t
      and a.attname = c.name
      and not a.attisdropped;
    if found_type is null then
      missing := missing || c.name;
    elsif found_type <> all (c.types) then
      raise exception 'table % has a column % of type %, and it must be %', adopt_missing.t, c.name, found_type, array_to_string(c.types, ' or ')
        using errcode = 'invalid_parameter_value', hint = 'Change its type, or rename it: adopt adds its own then.';
    end if;
  end loop;
  return missing;
end
$$;

create or replace function turno.adopt_indexes(a turno.adopted)
returns table (name text, definition text)
language sql
stable
as $$
  select turno.adopt_index_name(a, i.what), format('%s where %s', format(i.columns, a.id_column), i.condition)
  from (values
    ('processing', 'waiting', '(processing_attempts, %I)', 'processed_at is null'),
    ('processing', 'processing', '(processing_started_at)', 'processing_started_at is not null'),
    ('processed', 'unmarked', '(%I)', 'not processed')
  ) i (shape, what, columns, condition)
  where i.shape = a.shape
$$;

-- The functions, with everything filled in.
create or replace function turno.adopt_functions(a turno.adopted) returns setof turno.adopt_function
language sql
stable
as $$
  select
    turno.adopt_function_name(a, f.name), format(f.arguments, variadic w.words), format(f.types, variadic w.words),
    format(f.returns, variadic w.words), f.language, format(f.body, variadic w.words), f.said
  from turno.adopt_words(a) w (words)
  cross join lateral (
    select * from turno.adopt_take() where a.shape = 'processing'
    union all
    select * from turno.adopt_give() where a.shape = 'processing'
    union all
    select * from turno.adopt_tidy() where a.shape = 'processing'
    union all
    select * from turno.adopt_mark() where a.shape = 'processed') f
$$;

-- As a dollar-quoted text, which is good to read, unless a name in it would end the quotes.
create or replace function turno.adopt_quoted(body text) returns text
language sql
immutable
as $$
  select case when position('$turno$' in body) = 0 then '$turno$' || body || '$turno$' else quote_literal(body) end
$$;

-- rights: of a function that is new; one that is there already keeps its own.
create or replace function turno.adopt_make_function(a turno.adopted, f turno.adopt_function, rights text[]) returns text[]
language sql
stable
as $$
  -- Triggers of the table run inside, and may rely on names in its schema.
  select array[
    format(
      E'create or replace function %I.%I(%s)\nreturns %s\nlanguage %s\nsecurity invoker\nset search_path = pg_catalog, %I%s, pg_temp\nas %s',
      a.schema_name, f.name, f.arguments, f.returns, f.language, a.schema_name,
      case when a.schema_name = 'public' then '' else ', public' end, turno.adopt_quoted(f.body)),
    format('comment on function %I.%I(%s) is %L', a.schema_name, f.name, f.types, f.said)]
    || rights
$$;

create or replace function turno.adopt_make_columns(a turno.adopted, missing text[]) returns text[]
language sql
stable
as $$
  select array[format(
      E'alter table %I.%I\n%s', a.schema_name, a.table_name,
      string_agg(format('  add column %I %s', c.name, c.definition), E',\n' order by c.place))]
    || array_agg(format('comment on column %I.%I.%I is %L', a.schema_name, a.table_name, c.name, turno.adopt_sign()) order by c.place)
  from turno.adopt_columns(a.shape) with ordinality c (name, definition, types, place)
  where c.name = any (missing)
  having count(*) > 0
$$;

create or replace function turno.adopt_record(a turno.adopted) returns text
language sql
stable
as $$
  select format(
    E'insert into turno.adopted (schema_name, table_name, id_column, user_column, shape, suffix, max_attempts, columns, indexes, functions, replaced, restore)\n'
    'values (%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)\n'
    'on conflict (schema_name, table_name) do update\n'
    'set id_column    = excluded.id_column,\n'
    '    user_column  = excluded.user_column,\n'
    '    shape        = excluded.shape,\n'
    '    suffix       = excluded.suffix,\n'
    '    max_attempts = excluded.max_attempts,\n'
    '    columns      = excluded.columns,\n'
    '    indexes      = excluded.indexes,\n'
    '    functions    = excluded.functions,\n'
    '    replaced     = excluded.replaced,\n'
    '    restore      = excluded.restore',
    a.schema_name, a.table_name, a.id_column, a.user_column, a.shape, a.suffix, a.max_attempts, a.columns, a.indexes, a.functions,
    a.replaced, a.restore)
$$;

create or replace function turno.adopt_plan(a turno.adopted, "replace" boolean) returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  t       regclass := format('%I.%I', a.schema_name, a.table_name);
  missing text[] := turno.adopt_missing(t, a.shape);
  steps   text[] := coalesce(turno.adopt_make_columns(a, missing), '{}');
  old     turno.adopted;
  taken   regprocedure[];
begin
  select * into old
  from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  select coalesce(array_agg(w.f), '{}') into taken
  from turno.adopt_in_the_way(a, coalesce(old.functions, '{}')) w (f);
  perform turno.adopt_refuse_taken(a, taken, adopt_plan."replace");
  a.replaced := coalesce(old.replaced, '{}') || taken::text[];
  -- By age: a function that another one calls is the older of the two.
  select coalesce(old.restore, '{}') || coalesce(array_agg(r.step order by o.f::oid, r.place), '{}') into a.restore
  from unnest(taken) o (f)
  cross join lateral unnest(turno.adopt_restore(o.f)) with ordinality r (step, place);
  select missing || coalesce(array_agg(c order by c), '{}') into a.columns
  from unnest(old.columns) c
  where turno.adopt_is_signed(t, c);
  select array_agg(i.name), steps || coalesce(
    array_agg(format('create index %I on %s %s', i.name, t, i.definition)) filter (where to_regclass(format('%I.%I', a.schema_name, i.name)) is null), '{}')
  into a.indexes, steps
  from turno.adopt_indexes(a) i;
  select array_agg(format('%I.%I(%s)', a.schema_name, f.name, f.types)) into a.functions
  from turno.adopt_functions(a) f;
  -- What an earlier adoption with other options has made.
  select steps || coalesce(array_agg(d.step), '{}') into steps
  from (
    select format('drop function if exists %s', f) as step
    from unnest(old.functions) f
    where f <> all (a.functions)
    union all
    select format('drop index if exists %I.%I', a.schema_name, i)
    from unnest(old.indexes) i
    where i <> all (a.indexes)
    union all
    -- In one statement, because they may call each other.
    select format('drop routine %s', array_to_string(taken, ', '))
    where cardinality(taken) > 0) d;
  select steps || array_agg(m.step order by f.place, m.place) || turno.adopt_record(a) into steps
  from turno.adopt_functions(a) with ordinality f (name, arguments, types, returns, language, body, said, place)
  cross join lateral unnest(turno.adopt_make_function(
    a, row(f.name, f.arguments, f.types, f.returns, f.language, f.body, f.said)::turno.adopt_function,
    turno.adopt_rights_of_new(format('%I.%I(%s)', a.schema_name, f.name, f.types), taken))) with ordinality m (step, place);
  return steps;
end
$$;
