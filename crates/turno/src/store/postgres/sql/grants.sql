-- Purpose: least privilege. Each role may call the functions that turno.rights() lists for it and has no right to anything
--          else in the schema; the functions run as their owner. A role that does not exist is left out.
-- Index:   setting_pkey.

create or replace function turno.roles_grant() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  operators name   := turno.setting_value('operator_role');
  chosen    name[] := array[turno.setting_value('app_role'), turno.setting_value('operator_role')]::name[];
  grantee   name;
  f         regprocedure;
begin
  -- Where the settings name other roles, those of the default names have no rights, whatever a restore granted them.
  foreach grantee in array '{turno_app,turno_operator}'::name[]
  loop
    if grantee <> all (chosen) then
      perform turno.role_revoke(grantee);
    end if;
  end loop;
  for grantee in
    select r.rolname
    from pg_roles r
    where r.rolname = any (chosen)
    order by r.rolname
  loop
    execute format('grant usage on schema turno to %I', grantee);
    -- An older version granted more.
    execute format('revoke all on all functions in schema turno from %I', grantee);
    for f in
      select p.oid::regprocedure
      from pg_proc p
      join turno.rights() t on t.function = p.proname
      where p.pronamespace = 'turno'::regnamespace
        and (t.role = grantee or grantee = operators)
      order by p.oid
    loop
      execute format('grant execute on function %s to %I', f, grantee);
    end loop;
  end loop;
end
$$;
