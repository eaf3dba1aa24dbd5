-- Purpose: the list of migrations that were applied. Runs before any of them.
-- Index:   migration_pkey.

create schema if not exists turno;

create table if not exists turno.migration (
  version    integer     primary key,
  name       text        not null,
  applied_at timestamptz not null default clock_timestamp()
);
