-- Purpose: the end of the migration file for Supabase. Role service_role may call what the role of applications may; role anon may call
--          nothing, whatever default privileges say; role authenticated keeps what its owner granted it, which is nothing
--          at first. PostgREST reads the functions anew.
-- Index:   none.

do $$
declare
  app name := turno.setting_value('app_role');
begin
  if not exists (select from pg_roles r where r.rolname = app) then
    raise exception 'role % does not exist, and role % may not create it', quote_ident(app), current_user
      using errcode = 'insufficient_privilege', hint = format('Run "create role %I nologin" as an administrator, then apply this file again.', app);
  end if;
  if to_regrole('service_role') is null then
    raise exception 'role service_role does not exist: this is no database of Supabase'
      using errcode = 'undefined_object', hint = 'Run `turno migrate` instead.';
  end if;
  grant usage on schema turno to service_role;
  if to_regrole('anon') is not null then
    revoke all on schema turno from anon;
    revoke all on all tables in schema turno from anon;
    revoke all on all sequences in schema turno from anon;
    revoke all on all functions in schema turno from anon;
  end if;
end
$$;
