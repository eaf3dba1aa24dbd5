-- Purpose: the two roles, whose names are settings (app_role, operator_role): create them, and take away all rights of a former one.
-- Index:   setting_pkey.

-- Creates a role where the owner may do so. Where it may not, an administrator runs `create role NAME nologin`: an error if the role
-- is required, a notice if not, and then `turno migrate --repair` grants.
create or replace function turno.role_create(wanted name, required boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from pg_roles r where r.rolname = wanted) then
    execute format('create role %I nologin', wanted);
  end if;
exception
  -- Roles belong to the whole cluster: a migration of another database may have just created it.
  when duplicate_object or unique_violation then null;
  when insufficient_privilege then
    if required then
      raise exception 'role % does not exist, and role % may not create roles', quote_ident(wanted), quote_ident(current_user)
        using errcode = 'insufficient_privilege',
          hint = format('An administrator runs `create role %I nologin`; then change the setting again.', wanted);
    end if;
    raise notice 'role % was not created: an administrator runs "create role % nologin", then the owner runs turno migrate --repair',
      quote_ident(wanted), quote_ident(wanted);
end
$$;

-- All that a role may do in this schema by grants of its own.
create or replace function turno.role_revoke(former name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from pg_roles r where r.rolname = former) then
    execute format('revoke all on all functions in schema turno from %I', former);
    execute format('revoke all on all tables in schema turno from %I', former);
    execute format('revoke all on all sequences in schema turno from %I', former);
    execute format('revoke all on schema turno from %I', former);
  end if;
end
$$;

-- After a setting has named another role. Functions of adopted tables that the former role may call go over to the new one.
create or replace function turno.role_replace(former name, wanted name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  f record;
begin
  perform turno.role_create(wanted, required => true);
  for f in
    select
      p.oid::regprocedure as name,
      pg_has_role(p.proowner, 'usage') as is_owner
    from turno.adopted a
    cross join lateral unnest(a.functions) u (name)
    join pg_proc p on p.oid = to_regprocedure(u.name)
    where exists (
      select from aclexplode(p.proacl) g
      join pg_roles r on r.oid = g.grantee
      where r.rolname = former)
    order by 1
  loop
    if f.is_owner then
      execute format('grant execute on function %s to %I', f.name, wanted);
      execute format('revoke execute on function %s from %I', f.name, former);
    else
      raise warning 'function % keeps its rights: its owner runs "grant execute on function % to %" and "revoke execute on function % from %"',
        f.name, f.name, quote_ident(wanted), f.name, quote_ident(former);
    end if;
  end loop;
  if former not in (turno.setting_value('app_role'), turno.setting_value('operator_role')) then
    perform turno.role_revoke(former);
  end if;
end
$$;
