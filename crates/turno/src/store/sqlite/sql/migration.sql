-- Purpose: the list of migrations that were applied. Runs before any of them.
create table if not exists turno_migration (
  version    integer primary key,
  name       text    not null,
  applied_at integer not null
) strict;
