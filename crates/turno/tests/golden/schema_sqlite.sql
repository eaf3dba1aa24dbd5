begin immediate;

-- Purpose: the list of migrations that were applied. Runs before any of them.
create table if not exists turno_migration (
  version    integer primary key,
  name       text    not null,
  applied_at integer not null
) strict;

-- Migration 0001_lock

-- Locks, as in PostgreSQL's 0001_lock.sql. Times are microseconds since 1970 on the machine's clock.

create table turno_lock (
  resource     text    primary key,
  token        integer not null,          -- the last token granted; never goes back
  mode         text    not null,          -- exclusive: the holder is in this row; shared: in turno_lock_hold
  owner        text    not null,
  holds        integer not null,          -- 0: free
  acquired_at  integer not null,
  expires_at   integer not null,
  min_until    integer,                   -- nobody may take it before this, even when released
  max_until    integer,                   -- no renewal reaches past this
  user         text,
  service      text,
  description  text,
  host         text,
  pid          integer,
  hold_ids     text    not null default '', -- one for each hold: the request that took it, 36 characters each
  requests     text    not null default '', -- the last releases that named no hold
  fifo_until   integer                    -- somebody waits in line until then: look there first
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

insert into turno_migration (version, name, applied_at)
values (1, '0001_lock', unixepoch() * 1000000);

-- Migration 0002_inbox

-- The inbox: queues of items. Times are microseconds since 1970 on the machine's clock.
--
-- There is one writer at a time, so an item's place in line is decided when something changes and written
-- into its row, and a claim only reads what is in front. Nothing walks through a backlog.

-- A queue, once something was pushed to it, with how many items are where. Every change keeps the counts.
create table turno_inbox_queue (
  id           integer primary key,
  name         text    not null unique,
  waiting      integer not null default 0, -- lines 0, 1 and 2: pending or scheduled, as the clock decides
  held         integer not null default 0, -- line 3
  failed       integer not null default 0, -- line 4
  completed    integer not null default 0  -- since the queue began
) strict;

-- The last id given to an item; deleted items' ids do not come back.
create table turno_inbox_serial (
  only_row     integer primary key check (only_row = 1),
  last         integer not null
) strict;

insert into turno_inbox_serial (only_row, last) values (1, 0);

create table turno_inbox_item (
  id           integer primary key,
  queue        integer not null,
  line         integer not null,           -- 0 ready, 1 ready at its time, 2 behind another of its group, 3 held, 4 failed
  priority     integer not null,           -- 0 first
  due          integer,                    -- its time, if it has one; when it failed, if it did
  claim        integer,                    -- who holds it
  attempts     integer not null default 0, -- those that ended
  abandoned    integer not null default 0, -- how many of them because the worker vanished
  max_attempts integer not null,
  errors       integer not null default 0, -- how many were recorded, also those no longer kept
  pushed_at    integer not null,
  worker       text,                       -- who held it last, once it was let go
  key          text,
  group_key    text,
  payload      text    not null            -- last, because it may be long
) strict;

-- What a claim takes from the front of: those with a time by time, the others (due is null) by id.
create index turno_inbox_item_line on turno_inbox_item (queue, line, priority, due)
where line < 3;

-- Who of a group is where; at most one of lines 0, 1 and 3.
create index turno_inbox_item_group on turno_inbox_item (queue, group_key, line)
where group_key is not null;

-- Failures, oldest first.
create index turno_inbox_item_failed on turno_inbox_item (queue, due)
where line = 4;

-- Keys in use: of items, and of completed ones until the record of that is swept.
create table turno_inbox_key (
  queue        integer not null,
  key          text    not null,
  item         integer not null,
  primary key (queue, key)
) without rowid, strict;

-- How many items of lines 1 and 2 have their times in a span: slot = due >> span, for the spans 16 (66 ms),
-- 28 (4.5 minutes) and 40 (13 days). So it is known how many are still scheduled, though time itself moves them.
create table turno_inbox_due (
  queue        integer not null,
  span         integer not null,
  slot         integer not null,
  items        integer not null,
  primary key (queue, span, slot)
) without rowid, strict;

-- What was claimed together lives together. One that holds nothing any more stays for a while, so that the
-- same request claims nothing new.
create table turno_inbox_claim (
  id           integer primary key,
  token        blob    not null unique,    -- 16 bytes: the request's id
  queue        integer not null,
  worker       text    not null,
  claimed_at   integer not null,
  until        integer not null,
  held         integer not null,           -- how many of its items it still holds
  items        text    not null            -- the ids, in the order of the claim: 5-9 12
) strict;

create index turno_inbox_claim_until on turno_inbox_claim (queue, until)
where held > 0;

create index turno_inbox_claim_over on turno_inbox_claim (claimed_at)
where held = 0;

-- The last errors of an item.
create table turno_inbox_error (
  item         integer not null,
  number       integer not null,           -- from one, as turno_inbox_item.errors counts
  attempt      integer not null,
  at           integer not null,
  kind         text    not null,           -- failed or abandoned
  error        text    not null,
  worker       text,
  primary key (item, number)
) without rowid, strict;

-- Completed items.
create table turno_inbox_done (
  queue        integer not null,
  id           integer not null,
  at           integer not null,
  worker       text    not null,
  key          text,
  primary key (queue, id)
) without rowid, strict;

create index turno_inbox_done_at on turno_inbox_done (at);

-- What was answered to whom, should it be asked again.
create table turno_inbox_request (
  request      blob    not null,           -- 16 bytes
  verb         text    not null,
  at           integer not null,
  answer       text    not null,
  primary key (request, verb)
) without rowid, strict;

create index turno_inbox_request_at on turno_inbox_request (at);

-- How far each schedule has got.
create table turno_schedule (
  name         text    primary key,
  last         integer not null
) without rowid, strict;

insert into turno_migration (version, name, applied_at)
values (2, '0002_inbox', unixepoch() * 1000000);

-- Migration 0003_adopt

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

insert into turno_migration (version, name, applied_at)
values (3, '0003_adopt', unixepoch() * 1000000);

-- Migration 0004_outbox

-- The outbox. An event is an item of the queue $outbox: its key is the event's id, its group the ordering key, and its
-- payload the event. What is here is what items have no place for.

-- Items that are found by their keys: events that are dead.
create index turno_inbox_item_failed_key on turno_inbox_item (queue, key)
where line = 4 and key is not null;

-- Events that a person gave up.
create table turno_outbox_discarded (
  id           text    primary key,
  at           integer not null,
  "by"         text    not null
) without rowid, strict;

create index turno_outbox_discarded_at on turno_outbox_discarded (at);

-- Whole events that were dispatched, where somebody wants to keep them.
create table turno_outbox_archive (
  seq           integer primary key,
  id            text    not null,
  key           text,
  emitted_at    integer not null,
  dispatched_at integer not null,
  relay         text    not null,
  event         text    not null
) strict;

create index turno_outbox_archive_id on turno_outbox_archive (id);
create index turno_outbox_archive_at on turno_outbox_archive (dispatched_at);

-- Keys of which an event is dead and the later ones are set aside with it.
create table turno_outbox_parked (
  key          text    primary key,
  id           text    not null,           -- the one that is to blame
  at           integer not null
) without rowid, strict;

-- What consumers have handled.
create table turno_seen (
  consumer     text    not null,
  event_id     blob    not null,           -- 16 bytes
  at           integer not null,
  primary key (consumer, event_id)
) without rowid, strict;

create index turno_seen_at on turno_seen (at);

insert into turno_migration (version, name, applied_at)
values (4, '0004_outbox', unixepoch() * 1000000);

-- Migration 0005_once

-- Once: who runs the work of a request, and what was answered. One row a key, made when the work begins; nothing but a
-- sweep or a person deletes it. What its columns mean at a moment (in flight, done, unknown, gone) is said in
-- sqlite/once.rs.
create table turno_once (
  key          text    primary key,
  fingerprint  text,                       -- of the content; null: not compared
  state        text    not null,           -- running, done, released
  token        integer not null,           -- whose work counts; only grows
  attempt      integer not null,
  request      text    not null,           -- the begin that made it so
  worker       text,                       -- who runs it, as people see it
  began_at     integer not null,
  until        integer not null,           -- running: the lease's end; done: the answer's
  ttl          integer not null,           -- how long the answer is kept
  scope        text,                       -- whose quota it counts against
  late         integer not null default 0, -- how many stale answers came
  sweep_at     integer not null,           -- not before this is it worth a look
  answer       text                        -- JSON; null and done: the answer was not stored
) without rowid, strict;

create index turno_once_sweep on turno_once (sweep_at);
create index turno_once_scope on turno_once (scope, sweep_at) where scope is not null;

insert into turno_migration (version, name, applied_at)
values (5, '0005_once', unixepoch() * 1000000);

-- Migration 0006_access

-- Access tokens: who may ask a server. A few rows, for people; none is ever deleted, so that it stays known that there
-- were some. Of a secret only its hash is kept.
create table turno_access (
  id           text    primary key,        -- its public part
  hash         blob    not null,           -- SHA-256 of its secret part
  name         text    not null,           -- what people call it
  role         text    not null,           -- read, operate, admin
  prefix       text    not null,           -- the beginning of the names that it allows; empty: all
  created_at   integer not null,
  expires_at   integer,                    -- null: not by itself
  revoked_at   integer
) without rowid, strict;

create index turno_access_created on turno_access (created_at);

insert into turno_migration (version, name, applied_at)
values (6, '0006_access', unixepoch() * 1000000);

-- Migration 0007_deed

-- Deeds: what people did by hand to queues, events and once keys, and why. They are part of the history, as the ends of
-- holdings are, and are numbered with them; in a table of their own, because a program of the version before reads that of
-- locks, and does not know them.
create table turno_deed (
  id           integer primary key,        -- of the history's numbers
  at           integer not null,
  part         text    not null,           -- inbox, outbox, once
  event        text    not null,           -- requeued, reset, discarded, forgotten
  resource     text    not null,           -- the queue or the key; empty: the outbox has no name
  count        integer not null,           -- of items, events or keys
  actor        text,                       -- the person
  reason       text
) strict;

create index turno_deed_resource on turno_deed (resource, id);

insert into turno_migration (version, name, applied_at)
values (7, '0007_deed', unixepoch() * 1000000);

-- Migration 0008_batch

-- No table changes: the version is that of PostgreSQL's functions too.

insert into turno_migration (version, name, applied_at)
values (8, '0008_batch', unixepoch() * 1000000);

-- Migration 0009_managed

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

insert into turno_migration (version, name, applied_at)
values (9, '0009_managed', unixepoch() * 1000000);

-- Migration 0010_limits

-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- What is in flight or unknown, among millions of kept answers: for the dashboard's feed, and for lists of these states.
create index turno_once_open on turno_once (key) where state = 'running';

-- Outbox retries. An event has no limit of attempts of its own: the relay decides when it is dead. 0 stands for that.
update turno_inbox_item
set max_attempts = 0
where queue = (
  select id
  from turno_inbox_queue
  where name = '$outbox');

-- Keys of discarded items, which have no record of a completion: since when, until they are swept.
alter table turno_inbox_key add column done_at integer;
create index turno_inbox_key_done on turno_inbox_key (done_at) where done_at is not null;

insert into turno_migration (version, name, applied_at)
values (10, '0010_limits', unixepoch() * 1000000);

-- Migration 0011_reviewed

-- The rest of the review under faults: settings of the database, deeds of persons, wake-ups without names.

insert into turno_migration (version, name, applied_at)
values (11, '0011_reviewed', unixepoch() * 1000000);

update turno_migration
set oldest_program = 11
where version = 11;

commit;
