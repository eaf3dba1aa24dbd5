-- The rest of the review under faults: settings of the database, deeds of persons, wake-ups without names.

-- Settings of the whole database, which only its owner changes. No row: the default.
create table turno.setting (
  name  text collate "C" primary key,
  value text not null
);
