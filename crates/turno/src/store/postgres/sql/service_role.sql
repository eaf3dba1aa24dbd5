-- Purpose: Supabase's server-side role gets what the role of applications has, where the owner has granted it the schema
--          (`turno migrate --print --for supabase` does so).
-- Index:   none.
--
-- Each function by itself, and not the membership in that role: service_role does not inherit the rights of roles that
-- it is a member of (noinherit). Roles anon and authenticated get nothing.

do $$
declare
  app name := turno.setting_value('app_role');
  f   regprocedure;
begin
  if to_regrole('service_role') is null
     or not exists (select from pg_roles r where r.rolname = app)
     or not has_schema_privilege('service_role', 'turno', 'usage') then
    return;
  end if;
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and has_function_privilege(app, p.oid, 'execute')
  loop
    execute format('grant execute on function %s to service_role', f);
  end loop;
end
$$;
