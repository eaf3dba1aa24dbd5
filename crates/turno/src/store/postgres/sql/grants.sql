-- Purpose: least privilege. Role turno_app may call the public functions and touch nothing else; the
--          functions run as their owner. A cluster where roles cannot be created does without it.
-- Index:   none.

do $$
begin
  create role turno_app nologin;
exception
  when duplicate_object or unique_violation then null;
  when insufficient_privilege then
    raise notice 'role turno_app was not created: ask an administrator for "create role turno_app nologin", then run turno migrate again';
end
$$;

revoke all on schema turno from public;
revoke all on all tables in schema turno from public;
revoke all on all sequences in schema turno from public;
revoke all on all functions in schema turno from public;

do $$
declare
  f regprocedure;
begin
  if not exists (select from pg_roles where rolname = 'turno_app') then
    return;
  end if;
  grant usage on schema turno to turno_app;
  -- The public functions are the ones that run as their owner.
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and p.prosecdef
  loop
    execute format('grant execute on function %s to turno_app', f);
  end loop;
end
$$;
