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
