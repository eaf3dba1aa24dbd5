-- Adopted tables: tables of users' own that carry the claim protocol. What was added to each is remembered by name,
-- so that undoing takes away that and nothing else. Times are microseconds since 1970 on the machine's clock.
create table turno_adopted (
  table_name   text    primary key collate nocase,
  id_column    text    not null,
  user_column  text,                       -- what rows of one user are chosen by, if anything
  shape        text    not null check (shape in ('processing', 'processed')),
  max_attempts integer not null,           -- no row is handed out more often
  text_times   integer not null,           -- processed_at was there before, and is no number
  columns      text    not null,           -- those that were added, as JSON
  indexes      text    not null,           -- as JSON
  adopted_at   integer not null
) strict, without rowid;
