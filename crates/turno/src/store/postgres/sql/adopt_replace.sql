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
