-- The functions of schema turno that role anon may call; no row where there is no such role, or no schema.
select
  coalesce((
    select array_agg(p.oid::regprocedure::text order by p.oid::regprocedure::text)
    from pg_proc p
    where p.pronamespace = n.oid
      and has_schema_privilege(r.oid, n.oid, 'usage')
      and has_function_privilege(r.oid, p.oid, 'execute')), '{}') as functions,
  coalesce(has_table_privilege(to_regclass('turno.adopted'), 'select'), false) as is_owner
from pg_roles r
cross join pg_namespace n
where r.rolname = 'anon'
  and n.nspname = 'turno'
