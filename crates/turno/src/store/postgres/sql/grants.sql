-- Purpose: least privilege. Each role may call the functions that turno.rights() lists for it and has no right to anything
--          else in the schema; the functions run as their owner. A role that does not exist is left out.
-- Index:   none.

do $$
declare
  grantee name;
  f       regprocedure;
begin
  for grantee in
    select r.rolname
    from pg_roles r
    where r.rolname in ('turno_app', 'turno_operator')
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
        and (t.role = grantee or grantee = 'turno_operator')
      order by p.oid
    loop
      execute format('grant execute on function %s to %I', f, grantee);
    end loop;
  end loop;
end
$$;
