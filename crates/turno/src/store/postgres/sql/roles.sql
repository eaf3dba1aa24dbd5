-- Purpose: the roles turno_app and turno_operator, where the owner may create roles. Where it may not, an administrator
--          runs `create role turno_app nologin; create role turno_operator nologin`, and `turno migrate --repair` grants.
-- Index:   none.

do $$
declare
  wanted name;
begin
  foreach wanted in array '{turno_app,turno_operator}'::name[]
  loop
    begin
      if not exists (select from pg_roles r where r.rolname = wanted) then
        execute format('create role %I nologin', wanted);
      end if;
    exception
      -- Roles belong to the whole cluster: a migration of another database may have just created it.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise notice 'role % was not created: an administrator runs "create role % nologin", then the owner runs turno migrate --repair',
          quote_ident(wanted), quote_ident(wanted);
    end;
  end loop;
end
$$;
