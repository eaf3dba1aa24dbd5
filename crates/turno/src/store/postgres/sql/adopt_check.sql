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
