-- Purpose: Supabase's server-side role gets what turno_app has, where the owner has granted it the schema
--          (`turno migrate --print --for supabase` does so).
-- Index:   none.
--
-- Each function by itself, and not the membership in turno_app: service_role does not inherit the rights of roles that
-- it is a member of (noinherit). Roles anon and authenticated get nothing.

do $$
declare
  f regprocedure;
begin
  if to_regrole('service_role') is null
     or to_regrole('turno_app') is null
     or not has_schema_privilege('service_role', 'turno', 'usage') then
    return;
  end if;
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and has_function_privilege('turno_app', p.oid, 'execute')
  loop
    execute format('grant execute on function %s to service_role', f);
  end loop;
end
$$;
