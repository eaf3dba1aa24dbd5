-- Purpose: what replacing the user's own functions would change, as text for people: lines that begin with a minus sign go,
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
