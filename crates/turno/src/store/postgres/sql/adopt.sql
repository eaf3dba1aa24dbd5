-- Adopting a table: checks of the arguments, the statements, how a table differs from them, and the adoption itself.

-- Purpose: which table and columns are meant. Every name that goes into a generated statement passes here first,
--          and comes out as the catalogue writes it.
-- Index:   none.

-- By its plain name, however odd, or as SQL would write it, with a schema or in quotes. Seen from the caller's own
-- search_path: therefore it sets none, and names everything in full.
create or replace function turno.adopt_table("table" text) returns regclass
language plpgsql
stable
as $$
declare
  t regclass;
begin
  perform turno.check_name('table', adopt_table."table", 255);
  t := pg_catalog.to_regclass(pg_catalog.quote_ident(adopt_table."table"));
  if t is null then
    begin
      t := pg_catalog.to_regclass(adopt_table."table");
    exception
      -- It is no name in SQL's eyes, so it is the name of no table.
      when syntax_error_or_access_rule_violation or invalid_parameter_value or feature_not_supported then null;
    end;
  end if;
  if t is null then
    raise exception 'table % does not exist', adopt_table."table"
      using errcode = 'invalid_parameter_value', hint = 'Check the name, and give the schema if it is not in the search_path.';
  end if;
  return t;
end
$$;

-- The name of a column as the catalogue has it.
create or replace function turno.adopt_column(t regclass, field text, name text) returns text
language plpgsql
stable
as $$
declare
  column_name text;
begin
  perform turno.check_name(adopt_column.field, adopt_column.name, 255);
  select a.attname::text into column_name
  from pg_attribute a
  where a.attrelid = adopt_column.t
    and a.attname in (adopt_column.name, lower(adopt_column.name))
    and a.attnum > 0
    and not a.attisdropped
  order by a.attname = adopt_column.name desc
  limit 1;
  if column_name is null then
    raise exception '% is %, and table % has no such column', adopt_column.field, adopt_column.name, adopt_column.t
      using errcode = 'invalid_parameter_value', hint = format('It has %s.', (
        select string_agg(a.attname, ', ' order by a.attnum)
        from pg_attribute a
        where a.attrelid = adopt_column.t
          and a.attnum > 0
          and not a.attisdropped));
  end if;
  return column_name;
end
$$;

-- Whether a table can be adopted at all, and whether its id tells one row from another.
create or replace function turno.adopt_check(t regclass, id text) returns void
language plpgsql
stable
as $$
declare
  c pg_class;
begin
  select * into strict c
  from pg_class r
  where r.oid = adopt_check.t;
  if c.relkind not in ('r', 'p') or c.relpersistence = 't' or c.relnamespace::regnamespace::text in ('pg_catalog', 'information_schema', 'turno') then
    raise exception 'table % is none that can be adopted', adopt_check.t
      using errcode = 'invalid_parameter_value', hint = 'Name an ordinary table of your own: no view, no temporary or system table.';
  end if;
  if not exists (
    select
    from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = adopt_check.t
      and a.attname = adopt_check.id
      and a.attnotnull
      and i.indisunique
      and i.indisvalid
      and i.indnkeyatts = 1
      and i.indpred is null)
  then
    raise exception 'id is %, which may be null or occur twice in table %', adopt_check.id, adopt_check.t
      using errcode = 'invalid_parameter_value', hint = 'Name the primary key, or a column that is not null and has a unique index of its own.';
  end if;
end
$$;

-- What was asked for, checked, with the defaults filled in.
create or replace function turno.adopt_ask(
  t regclass, id text, "user" text, shape text, suffix text, max_attempts integer
) returns turno.adopted
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  a turno.adopted;
begin
  if adopt_ask.shape is null or adopt_ask.shape not in ('processing', 'processed') then
    raise exception 'shape is %, and must be processing or processed', coalesce(quote_literal(adopt_ask.shape), 'null')
      using errcode = 'invalid_parameter_value', hint = 'processing has locks, attempts and errors; processed is one flag.';
  end if;
  if coalesce(adopt_ask.suffix, '') !~ '^[a-z0-9_]{0,16}$' then
    raise exception 'suffix is %, and must be up to 16 letters a to z, digits and underscores', quote_literal(adopt_ask.suffix)
      using errcode = 'invalid_parameter_value', hint = 'It becomes the end of the functions'' names.';
  end if;
  if adopt_ask.max_attempts is null or adopt_ask.max_attempts not between 1 and 1000 then
    raise exception 'max_attempts is %, and must be between 1 and 1000', coalesce(adopt_ask.max_attempts::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for 5.';
  end if;
  a.id_column := turno.adopt_column(adopt_ask.t, 'id', adopt_ask.id);
  perform turno.adopt_check(adopt_ask.t, a.id_column);
  if adopt_ask."user" is not null then
    a.user_column := turno.adopt_column(adopt_ask.t, 'user', adopt_ask."user");
  elsif exists (select from pg_attribute c where c.attrelid = adopt_ask.t and c.attname = 'user_id' and not c.attisdropped) then
    a.user_column := 'user_id';
  end if;
  select n.nspname::text, c.relname::text into a.schema_name, a.table_name
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where c.oid = adopt_ask.t;
  a.shape := adopt_ask.shape;
  a.suffix := coalesce(adopt_ask.suffix, '');
  a.max_attempts := adopt_ask.max_attempts;
  return a;
end
$$;

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

-- A column that carries this comment was added by adopt; one without it belongs to the user.
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
  from turno.adopt_placeholders(a) w (words)
  cross join lateral (
    select * from turno.adopt_acquire() where a.shape = 'processing'
    union all
    select * from turno.adopt_release() where a.shape = 'processing'
    union all
    select * from turno.adopt_cleanup() where a.shape = 'processing'
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

-- Purpose: functions of the user's own that have a name which adopt needs: which they are, when they may be replaced,
--          and how unadopt restores them.
-- Index:   adopted_pkey.

-- All of a name, whatever their arguments: another one would answer some calls in the place of adopt's own.
create or replace function turno.adopt_in_the_way(a turno.adopted, ours text[]) returns setof regprocedure
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select p.oid::regprocedure
  from pg_proc p
  where p.pronamespace = format('%I', a.schema_name)::regnamespace
    and p.proname in (select f.name from turno.adopt_functions(a) f)
    and p.oid not in (
      select o.oid
      from unnest(adopt_in_the_way.ours) u (name)
      cross join lateral to_regprocedure(u.name) o (oid)
      where o.oid is not null)
  order by p.oid::regprocedure::text
$$;

-- The roles of a list that exist here, as SQL writes them.
create or replace function turno.adopt_roles(variadic names text[]) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(case n.name when 'public' then 'public' else quote_ident(n.name) end, ', ' order by n.place)
  from unnest(adopt_roles.names) with ordinality n (name, place)
  where n.name = 'public'
    or exists (select from pg_roles r where r.rolname = n.name)
$$;

-- A role that PostgREST uses for requests without a login must not call what adopt creates, although Supabase's
-- default privileges grant it every new function of schema public.
create or replace function turno.adopt_rights(f text) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array[
      format('revoke all on function %s from %s', adopt_rights.f, turno.adopt_roles('public', 'anon', 'authenticated'))]
    || case
      when turno.adopt_roles(turno.setting_value('app_role'), 'service_role') is null then '{}'
      else array[format('grant execute on function %s to %s', adopt_rights.f, turno.adopt_roles(turno.setting_value('app_role'), 'service_role'))]
    end
$$;

-- A function that stays keeps the rights that it has: its owner may have granted more.
create or replace function turno.adopt_rights_of_new(f text, taken regprocedure[]) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when to_regprocedure(f) is null or to_regprocedure(f) = any (taken) then turno.adopt_rights(f)
    else '{}'
  end
$$;

-- What depends on functions, without what depends on it among themselves.
create or replace function turno.adopt_callers(functions regprocedure[]) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
  from pg_depend d
  where d.refclassid = 'pg_proc'::regclass
    and d.refobjid = any (adopt_callers.functions::oid[])
    and not (d.classid = 'pg_proc'::regclass and d.objid = any (adopt_callers.functions::oid[]))
$$;

-- Raises an error unless the functions that are in the way may be replaced.
create or replace function turno.adopt_refuse_taken(a turno.adopted, taken regprocedure[], "replace" boolean) returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  t record;
begin
  for t in
    select
      p.oid::regprocedure as f,
      p.prokind,
      pg_get_userbyid(p.proowner) as owner,
      pg_has_role(p.proowner, 'usage') as is_owner,
      (select format('%I.%I', o.schema_name, o.table_name)
       from turno.adopted o
       where p.oid in (select to_regprocedure(n)::oid from unnest(o.functions) n)
       limit 1) as adopted
    from pg_proc p
    where p.oid = any (taken::oid[])
    order by p.oid::regprocedure::text
  loop
    if t.adopted is not null then
      raise exception 'suffix is needed: function % is that of the adopted table %', t.f, t.adopted
        using errcode = 'invalid_parameter_value', hint = 'Give a suffix for the functions'' names, such as the table''s name.';
    end if;
    if not adopt_refuse_taken."replace" then
      raise exception 'suffix is needed, or replace: there are functions already: %', array_to_string(taken, ', ')
        using errcode = 'invalid_parameter_value',
          hint = 'See the difference with `turno adopt --diff` or turno.adopt_difference, and replace them with --replace or '
                 'replace => true; or give a suffix for the names of the new functions, and both stay.';
    end if;
    if t.prokind not in ('f', 'p') then
      raise exception 'suffix is needed: % is an aggregate or a window function', t.f
        using errcode = 'invalid_parameter_value', hint = 'It is not replaced. Rename it, or give a suffix.';
    end if;
    if not t.is_owner then
      raise exception 'function % belongs to role %, and is not replaced', t.f, t.owner
        using errcode = 'insufficient_privilege',
          hint = format('Adopt as role %I, or first run `alter function %s owner to %I` as an administrator.', t.owner, t.f, current_user);
    end if;
  end loop;
  if turno.adopt_callers(taken) is not null then
    raise exception 'functions cannot be replaced, because of what depends on them: %', turno.adopt_callers(taken)
      using errcode = 'dependent_objects_still_exist', hint = 'Drop that first, then adopt, and create it again.';
  end if;
end
$$;

-- The statements that create a function as it is now, with its owner, its comment and the right to call it.
create or replace function turno.adopt_restore(f regprocedure) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array[rtrim(pg_get_functiondef(p.oid), E'\n')]
    || array[
      format('comment on routine %s is %L', f, obj_description(p.oid, 'pg_proc')),
      format('revoke all on routine %s from %s', f, turno.adopt_roles('public', 'anon', 'authenticated', 'service_role', turno.setting_value('app_role')))]
    || coalesce((
      select array_agg(format(
        'grant execute on routine %s to %s%s', f,
        case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end,
        case when g.is_grantable then ' with grant option' else '' end))
      from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
      where g.grantee <> p.proowner), '{}')
    -- Also if it is the current role: another one may undo.
    || array[format('alter routine %s owner to %I', f, pg_get_userbyid(p.proowner))]
  from pg_proc p
  where p.oid = adopt_restore.f
$$;

-- Purpose: what replacing the user's own functions would change, as text for operators: lines that begin with a minus sign go,
--          lines that begin with a plus sign come. Of a function that is only added, its signature says enough.
-- Index:   adopted_pkey.

create or replace function turno.adopt_lines(sign text, body text) returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select regexp_replace(rtrim(adopt_lines.body, E'\n'), '^', adopt_lines.sign || ' ', 'gn')
$$;

create or replace function turno.adopt_callable_by(f regprocedure) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select 'may be called by: ' || coalesce(string_agg(case when g.grantee = 0 then 'every role (public)' else pg_get_userbyid(g.grantee) end, ', '), 'its owner')
  from pg_proc p
  cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
  where p.oid = adopt_callable_by.f
    and g.grantee <> p.proowner
$$;

create or replace function turno.adopt_compare(a turno.adopted) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  taken regprocedure[];
  text_of_all text;
begin
  select array_agg(w.f) into taken
  from turno.adopt_in_the_way(a, coalesce((
    select o.functions
    from turno.adopted o
    where o.schema_name = a.schema_name
      and o.table_name = a.table_name), '{}')) w (f);
  if taken is null then
    return '';
  end if;
  select string_agg(d.entry, E'\n\n' order by d.name, d.entry) into text_of_all
  from (
    select
      coalesce(o.f::text, n.signature) as name,
      concat_ws(
        E'\n',
        case
          when o.f is null then 'create ' || n.signature
          when n.signature is null then 'drop ' || o.f::text
          else 'replace ' || o.f::text
        end,
        case
          when o.f is not null then turno.adopt_lines('-', pg_get_functiondef(o.f) || turno.adopt_callable_by(o.f))
        end,
        case
          when o.f is not null and n.signature is not null then turno.adopt_lines('+', concat(
            n.definition, E'\nmay be called by: ', coalesce(turno.adopt_roles(turno.setting_value('app_role'), 'service_role'), 'its owner')))
        end) as entry
    from unnest(taken) o (f)
    full join (
      select
        format('%I.%I(%s)', a.schema_name, f.name, f.types) as signature,
        (turno.adopt_make_function(
          a, row(f.name, f.arguments, f.types, f.returns, f.language, f.body, f.said)::turno.adopt_function, '{}'))[1] as definition
      from turno.adopt_functions(a) f) n
      on to_regprocedure(n.signature) = o.f) d;
  return text_of_all || E'\n';
end
$$;

create or replace function turno.adopt_difference(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5
) returns text
language sql
stable
as $$
  select turno.adopt_compare(turno.adopt_ask(
    turno.adopt_table(adopt_difference."table"), adopt_difference.id, adopt_difference."user", adopt_difference.shape,
    adopt_difference.suffix, adopt_difference.max_attempts))
$$;

comment on function turno.adopt_difference is
  'The functions that adopt would replace, next to those that it would create; empty if none is in the way. Nothing is changed.';

-- Purpose: adopts a table: the claim protocol on a table that is there already. For the owner of both, schema turno
--          and the table: these run with the caller's own rights, because they change the caller's own table.
-- Index:   adopted_pkey.

create or replace function turno.adopt_apply(a turno.adopted, "replace" boolean) returns turno.adopted
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  step text;
begin
  foreach step in array turno.adopt_plan(a, adopt_apply."replace") loop
    execute step;
  end loop;
  select * into a
  from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  return a;
end
$$;

create or replace function turno.adopt(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5,
  "replace"    boolean default false
) returns turno.adopted
language plpgsql
-- A table that is in use must not keep its other users waiting behind this.
set lock_timeout = '5s'
as $$
begin
  -- Two who adopt at once take turns.
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('turno.adopt', 0));
  return turno.adopt_apply(turno.adopt_ask(
    turno.adopt_table(adopt."table"), adopt.id, adopt."user", adopt.shape, adopt.suffix, adopt.max_attempts),
    adopt."replace");
end
$$;

comment on function turno.adopt is
  'Adds the columns, indexes and functions of the claim protocol to a table, as far as they are missing. Repeating it changes nothing. Functions of your own with the same names are replaced only if replace is true; unadopt restores them.';

create or replace function turno.adopt_print(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5,
  "replace"    boolean default false
) returns text
language plpgsql
stable
as $$
begin
  return E'begin;\n\n'
    || pg_catalog.array_to_string(turno.adopt_plan(turno.adopt_ask(
      turno.adopt_table(adopt_print."table"), adopt_print.id, adopt_print."user", adopt_print.shape, adopt_print.suffix,
      adopt_print.max_attempts), adopt_print."replace"), E';\n\n')
    || E';\n\ncommit;\n';
end
$$;

comment on function turno.adopt_print is 'What adopt would do, as an SQL script; nothing is done.';

-- The adopted table that a name means: in full, or seen from a search_path.
create or replace function turno.adopted_find("table" text, path name[]) returns setof turno.adopted
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select a.*
  from turno.adopted a
  where (adopted_find."table" in (a.table_name, quote_ident(a.table_name)) and a.schema_name = any (adopted_find.path))
    or adopted_find."table" in (
      a.schema_name || '.' || a.table_name,
      quote_ident(a.schema_name) || '.' || quote_ident(a.table_name))
    or (lower(adopted_find."table") = a.table_name and a.schema_name = any (adopted_find.path))
  order by a.table_name = adopted_find."table" desc, array_position(adopted_find.path, a.schema_name::name)
  limit 1
$$;

-- Everything that depends on what adopt has added, in words.
create or replace function turno.adopt_dependents(a turno.adopted, t regclass) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
  from pg_depend d
  left join pg_constraint n on d.classid = 'pg_constraint'::regclass and n.oid = d.objid
  where (
      (d.refclassid = 'pg_class'::regclass and d.refobjid = t and d.refobjsubid in (
        select c.attnum
        from pg_attribute c
        where c.attrelid = t
          and c.attname = any (a.columns)))
      or (d.refclassid = 'pg_proc'::regclass and d.refobjid in (select to_regprocedure(f)::oid from unnest(a.functions) f)))
    and d.classid <> 'pg_attrdef'::regclass
    and n.contype is distinct from 'n'
    and not (d.classid = 'pg_class'::regclass and d.objid in (
      select to_regclass(format('%I.%I', a.schema_name, i))::oid
      from unnest(a.indexes) i))
$$;

create or replace function turno.adopt_undo(a turno.adopted) returns turno.adopted
language plpgsql
set search_path = pg_catalog, pg_temp
-- A function that is restored may name a column that is not there any more: that is for its owner to see to.
set check_function_bodies = off
as $$
declare
  t    regclass := to_regclass(format('%I.%I', a.schema_name, a.table_name));
  dependents text;
  newer text;
  step text;
begin
  select coalesce(array_agg(c order by c), '{}') into a.columns
  from unnest(a.columns) c
  where turno.adopt_is_signed(t, c);
  -- Without the table, the functions that it had before would refer to nothing.
  if t is null then
    a.replaced := '{}';
    a.restore := '{}';
  end if;
  dependents := turno.adopt_dependents(a, t);
  if dependents is not null then
    raise exception 'table %.% cannot be let go, because of what depends on it: %', a.schema_name, a.table_name, dependents
      using errcode = 'dependent_objects_still_exist', hint = 'Drop that first, and then undo again.';
  end if;
  select r.f into newer
  from unnest(a.replaced) r (f)
  where to_regprocedure(r.f) is not null
    and to_regprocedure(r.f) not in (
      select o.f
      from unnest(a.functions) u (name)
      cross join lateral to_regprocedure(u.name) o (f)
      where o.f is not null)
  limit 1;
  if newer is not null then
    raise exception 'function % was created after adopt replaced one of that name, which undoing restores', newer
      using errcode = 'dependent_objects_still_exist', hint = 'Rename or drop the newer one first, and then undo again.';
  end if;
  for step in
    select format('drop function if exists %s', f) from unnest(a.functions) f
    union all
    select format('drop index if exists %I.%I', a.schema_name, i) from unnest(a.indexes) i
    union all
    select format('alter table %s drop column %I', t, c) from unnest(a.columns) c
    union all
    select r from unnest(a.restore) r
  loop
    begin
      execute step;
    exception
      -- A role that could call a function before, and was dropped since.
      when undefined_object then
        if step not like 'grant execute on routine %' then
          raise;
        end if;
    end;
  end loop;
  delete from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  return a;
end
$$;

create or replace function turno.unadopt("table" text) returns turno.adopted
language plpgsql
set lock_timeout = '5s'
as $$
declare
  a turno.adopted;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('turno.adopt', 0));
  select * into a
  from turno.adopted_find(unadopt."table", pg_catalog.current_schemas(false));
  if not found then
    raise exception 'table % is not adopted', unadopt."table"
      using errcode = 'invalid_parameter_value', hint = 'There is nothing to undo.';
  end if;
  return turno.adopt_undo(a);
end
$$;

comment on function turno.unadopt is
  'Drops the functions, indexes and columns that adopt has added to a table, and nothing else, and restores the functions that it replaced. Answers what was dropped.';

-- How a client calls the functions of an adopted table: names are put into quotes here, and nowhere else.
create or replace function turno.adopted_calls("table" text, path name[] default array['public'])
returns table (verb text, call text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.verb, format(c.call, a.schema_name, turno.adopt_function_name(a, c.name), w.words[4], w.words[6], a.id_column)
  from turno.adopted_find(adopted_calls."table", adopted_calls.path) a
  cross join lateral turno.adopt_placeholders(a) w (words)
  join (values
    ('processing', 'acquire', 'acquire_processing_lock_token', 'select %1$I.%2$I($1::%3$s, $2) as token'),
    ('processing', 'release', 'release_processing_lock', 'select %1$I.%2$I($1::%3$s, $2) as done'),
    ('processing', 'fail', 'release_processing_lock_with_error', 'select %1$I.%2$I($1::%3$s, $2, $3) as done'),
    ('processing', 'cleanup', 'cleanup_abandoned_processing_locks_after', 'select %1$I.%2$I($1)::bigint as many'),
    ('processing', 'reset', 'reset_stuck_processing_after', 'select %1$I.%2$I($1, $2)::bigint as many'),
    ('processing', 'next', 'get_next_{table}_for_processing_token',
      'select t.%5$I::text as id, t.processing_token as token, t.processing_attempts::integer as attempt from %1$I.%2$I($1::%4$s, $2, $3) t'),
    ('processed', 'mark', 'try_mark_as_processing', 'select %1$I.%2$I($1::%3$s) > 0 as done'),
    ('processed', 'unmark', 'mark_as_unprocessed', 'select %1$I.%2$I($1::%3$s) > 0 as done'),
    ('processing', 'stats', 'get_processing_stats', 'select s.total, s.pending, s.processing, s.completed, s.failed from %1$I.%2$I($1::%4$s) s'),
    ('processed', 'stats', 'get_processing_stats', 'select s.total, s.pending, s.processing, s.completed, s.failed from %1$I.%2$I($1::%4$s) s')
  ) c (shape, verb, name, call) on c.shape = a.shape
  where to_regclass(format('%I.%I', a.schema_name, a.table_name)) is not null
$$;

comment on function turno.adopted_calls is
  'Calls of the functions of an adopted table, one per verb; no row if the table is not adopted. For client libraries.';
