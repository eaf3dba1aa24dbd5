-- Adopted tables: tables of users' own that carry the claim protocol. What was added to each is remembered by name,
-- so that undoing takes away that and nothing else, also after a dump and a restore.

create table turno.adopted (
  schema_name  text        collate "C" not null,
  table_name   text        collate "C" not null,
  id_column    text        not null,
  user_column  text,                           -- what p_user_id is compared with, if anything
  shape        text        not null check (shape in ('processing', 'processed')),
  suffix       text        not null default '',
  max_attempts integer     not null,           -- get_next hands no row out more often
  columns      text[]      not null default '{}',
  indexes      text[]      not null default '{}',
  functions    text[]      not null default '{}',
  adopted_at   timestamptz not null default clock_timestamp(),
  primary key (schema_name, table_name)
);

-- A function that is made for every adopted table. All but the comment are templates: see adopt_words.
create type turno.adopt_function as (
  name         text,
  arguments    text,
  types        text,                           -- of the arguments: with the name, what identifies it
  returns      text,
  language     text,
  body         text,
  said         text                            -- its comment
);
