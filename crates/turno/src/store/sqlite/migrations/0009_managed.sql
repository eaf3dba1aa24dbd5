-- No table changes: the version number is shared with PostgreSQL.

-- A program that is older than the schema works on if it was built for this version or a later one. Null: only programs of
-- the version itself.
alter table turno_migration
  add column oldest_program integer;
