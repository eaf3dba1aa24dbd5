-- Purpose: the number of the last migration, for callers that may not read the table.
-- Index:   migration_pkey.

create or replace function turno.schema_version() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select max(m.version)
  from turno.migration m
$$;

comment on function turno.schema_version is 'The number of the last migration that was applied.';
