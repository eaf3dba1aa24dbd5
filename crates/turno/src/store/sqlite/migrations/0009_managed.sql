-- A program that is older than the schema works on if it was built for this version or a later one. Null: only programs of
-- the version itself.
alter table turno_migration
  add column oldest_program integer;

-- When the store was last swept, for `turno doctor`. One row.
create table turno_sweep_last (
  single       integer primary key default 1 check (single = 1),
  at           integer not null,
  "by"         text
) strict;

insert into turno_sweep_last (at) values (unixepoch() * 1000000);
