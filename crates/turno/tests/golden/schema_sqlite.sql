CREATE TABLE sqlite_sequence(name,seq);
CREATE TABLE turno_access (
  id           text    primary key,        -- its public part
  hash         blob    not null,           -- SHA-256 of its secret part
  name         text    not null,           -- display name
  role         text    not null,           -- read, operate, admin
  prefix       text    not null,           -- the beginning of the names that it allows; empty: all
  created_at   integer not null,
  expires_at   integer,                    -- null: not by itself
  revoked_at   integer
) without rowid, strict;
CREATE INDEX turno_access_created on turno_access (created_at);
CREATE TABLE turno_adopted (
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
CREATE TABLE turno_inbox_claim (
  id           integer primary key,
  token        blob    not null unique,    -- 16 bytes: the request's id
  queue        integer not null,
  worker       text    not null,
  claimed_at   integer not null,
  until        integer not null,
  held         integer not null,           -- how many of its items it still holds
  items        text    not null            -- the ids, in the order of the claim: 5-9 12
) strict;
CREATE INDEX turno_inbox_claim_over on turno_inbox_claim (claimed_at)
where held = 0;
CREATE INDEX turno_inbox_claim_until on turno_inbox_claim (queue, until)
where held > 0;
CREATE TABLE turno_inbox_done (
  queue        integer not null,
  id           integer not null,
  at           integer not null,
  worker       text    not null,
  key          text, last_id integer,
  primary key (queue, id)
) without rowid, strict;
CREATE INDEX turno_inbox_done_at on turno_inbox_done (at);
CREATE TABLE turno_inbox_due (
  queue        integer not null,
  span         integer not null,
  slot         integer not null,
  items        integer not null,
  primary key (queue, span, slot)
) without rowid, strict;
CREATE TABLE turno_inbox_error (
  item         integer not null,
  number       integer not null,           -- from one, as turno_inbox_item.errors counts
  attempt      integer not null,
  at           integer not null,
  kind         text    not null,           -- failed or abandoned
  error        text    not null,
  worker       text,
  primary key (item, number)
) without rowid, strict;
CREATE TABLE turno_inbox_item (
  id           integer primary key,
  queue        integer not null,
  state         integer not null,           -- 0 ready, 1 ready at its time, 2 behind another of its group, 3 held, 4 failed
  priority     integer not null,           -- 0 first
  run_at          integer,                    -- its time, if it has one; when it failed, if it did
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
CREATE INDEX turno_inbox_item_failed on turno_inbox_item (queue, run_at)
where state = 4;
CREATE INDEX turno_inbox_item_failed_key on turno_inbox_item (queue, key)
where state = 4 and key is not null;
CREATE INDEX turno_inbox_item_group on turno_inbox_item (queue, group_key, state)
where group_key is not null;
CREATE INDEX turno_inbox_item_line on turno_inbox_item (queue, state, priority, run_at)
where state < 3;
CREATE TABLE turno_inbox_key (
  queue        integer not null,
  key          text    not null,
  item         integer not null, done_at integer,
  primary key (queue, key)
) without rowid, strict;
CREATE INDEX turno_inbox_key_done on turno_inbox_key (done_at) where done_at is not null;
CREATE TABLE turno_inbox_queue (
  id           integer primary key,
  name         text    not null unique,
  waiting      integer not null default 0, -- lines 0, 1 and 2: pending or scheduled, as the clock decides
  held         integer not null default 0, -- line 3
  failed       integer not null default 0, -- line 4
  completed    integer not null default 0  -- since the queue began
, settings text) strict;
CREATE TABLE turno_inbox_rate (
  queue        integer primary key,
  next_at      integer not null
) strict;
CREATE TABLE turno_inbox_request (
  request      blob    not null,           -- 16 bytes
  verb         text    not null,
  at           integer not null,
  answer       text    not null,
  primary key (request, verb)
) without rowid, strict;
CREATE INDEX turno_inbox_request_at on turno_inbox_request (at);
CREATE TABLE turno_inbox_serial (
  only_row     integer primary key check (only_row = 1),
  last         integer not null
) strict;
CREATE TABLE turno_lock (
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
CREATE TABLE turno_lock_floor (
  only_row     integer primary key check (only_row = 1),
  token        integer not null
) strict;
CREATE TABLE turno_lock_history (
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
CREATE INDEX turno_lock_history_resource on turno_lock_history (resource, id);
CREATE TABLE turno_lock_hold (
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
CREATE TABLE turno_lock_waiter (
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
CREATE TABLE turno_migration (
  version    integer primary key,
  name       text    not null,
  applied_at integer not null
, oldest_program integer) strict;
CREATE TABLE turno_once (
  key          text    primary key,
  fingerprint  text,                       -- of the content; null: not compared
  state        text    not null,           -- running, done, released
  token        integer not null,           -- whose work counts; only grows
  attempt      integer not null,
  request      text    not null,           -- the begin that made it so
  worker       text,                       -- name of the worker that runs it
  began_at     integer not null,
  until        integer not null,           -- running: the lease's end; done: the answer's
  ttl          integer not null,           -- how long the answer is kept
  scope        text,                       -- whose quota it counts against
  late         integer not null default 0, -- how many stale answers came
  sweep_at     integer not null,           -- not before this is it worth a look
  answer       text                        -- JSON; null and done: the answer was not stored
) without rowid, strict;
CREATE INDEX turno_once_open on turno_once (key) where state = 'running';
CREATE INDEX turno_once_scope on turno_once (scope, sweep_at) where scope is not null;
CREATE INDEX turno_once_sweep on turno_once (sweep_at);
CREATE TABLE "turno_operator_action" (
  id           integer primary key,        -- of the history's numbers
  at           integer not null,
  part         text    not null,           -- inbox, outbox, once
  event        text    not null,           -- requeued, reset, discarded, forgotten
  resource     text    not null,           -- the queue or the key; empty: the outbox has no name
  count        integer not null,           -- of items, events or keys
  actor        text,                       -- the person
  reason       text
) strict;
CREATE INDEX turno_operator_action_resource on turno_operator_action (resource, id);
CREATE TABLE turno_outbox_archive (
  seq           integer primary key,
  id            text    not null,
  key           text,
  emitted_at    integer not null,
  dispatched_at integer not null,
  relay         text    not null,
  event         text    not null
) strict;
CREATE INDEX turno_outbox_archive_at on turno_outbox_archive (dispatched_at);
CREATE INDEX turno_outbox_archive_id on turno_outbox_archive (id);
CREATE TABLE turno_outbox_discarded (
  id           text    primary key,
  at           integer not null,
  "by"         text    not null
) without rowid, strict;
CREATE INDEX turno_outbox_discarded_at on turno_outbox_discarded (at);
CREATE TABLE turno_outbox_parked (
  key          text    primary key,
  id           text    not null,           -- the one that is to blame
  at           integer not null
) without rowid, strict;
CREATE TABLE turno_schedule (
  name         text    primary key,
  last         integer not null
) without rowid, strict;
CREATE TABLE turno_seen (
  consumer     text    not null,
  event_id     blob    not null,           -- 16 bytes
  at           integer not null,
  primary key (consumer, event_id)
) without rowid, strict;
CREATE INDEX turno_seen_at on turno_seen (at);
CREATE TABLE turno_sweep_last (
  single       integer primary key default 1 check (single = 1),
  at           integer not null,
  "by"         text
) strict;
