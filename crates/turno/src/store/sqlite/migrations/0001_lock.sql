-- Locks, as in PostgreSQL's 0001_lock.sql. Times are microseconds since 1970 on the machine's clock.

create table turno_lock (
  resource     text    primary key,
  token        integer not null,          -- the last token granted; never goes back
  mode         text    not null,          -- exclusive: the holder is in this row; shared: in turno_lock_hold
  owner        text    not null,
  holds        integer not null,          -- 0: free
  acquired_at  integer not null,
  expires_at   integer not null,
  min_until    integer,                   -- no caller may take it before this, even when released
  max_until    integer,                   -- no renewal reaches past this
  user         text,
  service      text,
  description  text,
  host         text,
  pid          integer,
  hold_ids     text    not null default '', -- one for each hold: the request that took it, 36 characters each
  requests     text    not null default '', -- the last releases that named no hold
  fifo_until   integer                    -- a caller waits in order until then: look there first
) without rowid, strict;

create table turno_lock_hold (
  resource     text    not null,
  token        integer not null,
  owner        text    not null,
  holds        integer not null,
  acquired_at  integer not null,
  expires_at   integer not null,
  min_until    integer,
  max_until    integer,
  user         text,
  service      text,
  description  text,
  host         text,
  pid          integer,
  hold_ids     text    not null default '',
  requests     text    not null default '',
  primary key (resource, token)
) without rowid, strict;

create table turno_lock_waiter (
  ticket       integer primary key autoincrement,
  resource     text    not null,
  owner        text    not null,
  fifo         integer not null,
  since        integer not null,
  alive_until  integer not null,          -- a waiter that died stops counting then
  user         text,
  service      text,
  description  text,
  unique (resource, owner)
) strict;

create table turno_lock_history (
  id           integer primary key autoincrement,
  at           integer not null,
  event        text    not null,
  resource     text    not null,
  token        integer not null,
  mode         text    not null,
  owner        text,
  user         text,
  service      text,
  description  text,
  host         text,
  pid          integer,
  acquired_at  integer,
  expires_at   integer,
  actor        text,                      -- the person who broke it
  reason       text,
  request      text                       -- what ended it, should it be asked again
) strict;

create index turno_lock_history_resource on turno_lock_history (resource, id);

-- The highest token of any purged row: a resource that comes back starts above it.
create table turno_lock_floor (
  only_row     integer primary key check (only_row = 1),
  token        integer not null
) strict;

insert into turno_lock_floor (only_row, token) values (1, 0);
