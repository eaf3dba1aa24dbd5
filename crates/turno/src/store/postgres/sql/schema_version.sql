-- Purpose: the number of the last migration and the oldest program that may use it, for callers that may not read the table.
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

create or replace function turno.schema_oldest_program() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(m.oldest_program, m.version)
  from turno.migration m
  order by m.version desc
  limit 1
$$;

comment on function turno.schema_oldest_program is
  'Programs that were built for this schema version or a later one may use the schema.';

comment on function turno.schema_version is 'The number of the last migration that was applied.';
