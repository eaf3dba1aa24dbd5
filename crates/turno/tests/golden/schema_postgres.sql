begin;
set local search_path = pg_catalog, pg_temp;

-- Purpose: the list of migrations that were applied. Runs before any of them.
-- Index:   migration_pkey.

create schema if not exists turno;

create table if not exists turno.migration (
  version    integer     primary key,
  name       text        not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- Migration 0001_lock

-- Locks: one row a resource, so that taking a free lock changes exactly one row.
--
-- Only the primary key is indexed, and half of each page is left free: every acquire, renew and
-- release is then a heap-only update. An index on any column that they change would undo that.

create table turno.lock (
  resource    text        collate "C" primary key,
  token       bigint      not null,          -- the last token granted; never goes back
  mode        text        not null,          -- exclusive: the holder is in this row; shared: in lock_hold
  owner       text        not null,
  holds       integer     not null,          -- 0: free
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,                   -- nobody may take it before this, even when released
  max_until   timestamptz,                   -- no renewal reaches past this
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}', -- one for each hold: the request that took it
  requests    uuid[]      not null default '{}', -- the last releases that named no hold
  waited_until timestamptz,                  -- somebody waits until then: a release must call
  fifo_until  timestamptz                    -- somebody waits in line until then: look there first
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row a shared hold. lock.expires_at is then the latest of its holds, so that an exclusive
-- acquire still has to look at one row only.
create table turno.lock_hold (
  resource    text        collate "C" not null,
  token       bigint      not null,
  owner       text        not null,
  holds       integer     not null,
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,
  max_until   timestamptz,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}',
  requests    uuid[]      not null default '{}',
  primary key (resource, token)
) with (fillfactor = 70);

-- Who waits for what. Unlogged: a crash forgets the queue, and the waiters, who keep
-- signing in while they wait, form it again.
create unlogged table turno.lock_waiter (
  resource    text        collate "C" not null,
  owner       text        not null,
  ticket      bigint      generated always as identity,
  fifo        boolean     not null,
  since       timestamptz not null,
  alive_until timestamptz not null,          -- a waiter that died stops counting then
  "user"      text,
  service     text,
  description text,
  primary key (resource, owner)
) with (fillfactor = 70);

-- One row a holding, written when it ends, and one a late arrival.
create table turno.lock_history (
  id          bigint      generated always as identity primary key,
  at          timestamptz not null default clock_timestamp(),
  event       text        not null,
  resource    text        collate "C" not null,
  token       bigint      not null,
  mode        text        not null,
  owner       text,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  actor       text,                          -- the person who broke it
  reason      text,
  request     uuid                           -- what ended it, should it be asked again
);

create index lock_history_resource on turno.lock_history (resource, id);

-- The highest token of any purged row: a resource that comes back starts above it.
create table turno.lock_floor (
  only_row    boolean     primary key default true check (only_row),
  token       bigint      not null
);

insert into turno.lock_floor (token) values (0);

-- What lock_acquire was asked for, handed whole to the functions that decide.
create type turno.lock_ask as (
  resource    text,
  owner       text,
  ttl         interval,
  "user"      text,
  service     text,
  description text,
  mode        text,
  permits     integer,
  min_hold    interval,
  max_hold    interval,
  host        text,
  pid         integer,
  request     uuid,
  max_ttl     interval
);

create type turno.lock_outcome as (
  outcome     text,                          -- acquired, reentered, busy
  resource    text,
  owner       text,                          -- of the lease, or of who has it
  token       bigint,                        -- of the lease; null when busy
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,                      -- of the lease, or of who has it, on this clock
  "user"      text,
  service     text,
  description text
);

create type turno.lock_renewal as (
  outcome     text,                          -- renewed, lost
  expires_at  timestamptz,
  remaining   interval
);

create type turno.lock_ending as (
  outcome     text,                          -- released, lost
  holds       integer                        -- holds that the owner still has
);

create type turno.lock_info as (
  resource    text,
  locked      boolean,
  mode        text,
  owner       text,
  token       bigint,
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  waiters     bigint
);

create type turno.swept as (
  expired     bigint,                        -- holdings closed because their time was up
  purged      bigint,                        -- rows of resources long unused
  waiters     bigint,
  history     bigint
);

insert into turno.migration (version, name) values (1, '0001_lock');

-- Migration 0002_inbox

-- The inbox. An item is written twice in its life, when it is pushed and when it is done: claiming it
-- touches other rows only.
--
-- A claim is one row for many items (inbox_batch), and a cursor for each queue and priority says how far
-- claiming has got (inbox_cursor). So a claim does not look at what lies behind it, dead or alive, and
-- costs the same with a thousand items or with millions, and under a snapshot that somebody holds open.

create table turno.inbox_queue (
  id           integer     generated always as identity primary key,
  name         text        collate "C" not null unique,
  idle_until   timestamptz                     -- an idle worker listens until then: a push must call
) with (fillfactor = 50);

-- What a queue's items have had, so that claims need not look for what never was. Added to by whoever pushes something
-- new, and never changed: nobody who pushes waits for another.
create table turno.inbox_kind (
  queue_id     integer     not null,
  lanes        integer     not null,           -- priorities, a bit for each
  grouped      boolean     not null
);

create index inbox_kind_queue on turno.inbox_kind (queue_id);

-- An item is in line by its number (run_at is null), or waits for a time. While it is claimed from there,
-- its time is infinity; while it is claimed from the line, only the cursor has passed it.
create table turno.inbox_item (
  lane         integer     not null,           -- four times the queue's id, plus the priority
  id           bigint      not null,
  run_at       timestamptz,
  pushed_at    timestamptz not null,
  attempts     smallint    not null default 0, -- those that ended: failed or abandoned
  abandoned    smallint    not null default 0,
  max_attempts smallint    not null,
  "group"      text        collate "C",
  key          text        collate "C",
  errors       jsonb,
  payload      json        not null,
  primary key (lane, id)
) with (autovacuum_vacuum_scale_factor = 0.05);

create index inbox_item_due on turno.inbox_item (lane, run_at, id) where run_at is not null;
-- The queue and the group in one number, which is compared faster than text: whoever asks compares the group as well.
create index inbox_item_group on turno.inbox_item (hashtextextended("group", lane / 4), id) where "group" is not null;

-- Numbers are given out one at a time, by whoever has a transaction id already: see inbox_late.
create sequence turno.inbox_item_id as bigint;

-- One claim: what one worker took of one lane at one time, as far as it still holds it.
create table turno.inbox_batch (
  token        uuid           not null,
  lane         integer        not null,
  queue_id     integer        not null,
  n            bigint         not null,        -- the number of the claim, as in inbox_cursor
  ids          int8multirange not null,
  groups       text[],                         -- the groups that it keeps busy
  worker       text           not null,
  claimed_at   timestamptz    not null,
  until        timestamptz    not null,
  primary key (token, lane)
) with (fillfactor = 70);

create index inbox_batch_queue on turno.inbox_batch (queue_id, n);

-- How far claiming has got: one live row a queue, the one with the highest n. It is replaced, not updated,
-- so that reading it never walks along versions that somebody's old snapshot keeps alive.
create table turno.inbox_cursor (
  queue_id     integer     not null,
  n            bigint      not null,
  at_id        bigint[]    not null,           -- for each priority: everything up to here has been seen
  floor_id     bigint[]    not null,           -- nothing can appear any more up to here
  floor_n      bigint      not null,           -- the claim that was the last then
  mark_id      bigint[],                       -- becomes the floor when all transactions
  mark_n       bigint,
  mark_xid     xid8,                           -- up to this one have ended
  late_at      timestamptz not null,           -- when somebody last looked behind the cursor
  late_cost    interval    not null,           -- and how long that took
  due_from     timestamptz not null,           -- nothing is due before this
  due_at       timestamptz not null,           -- when somebody last looked from the beginning
  expiry       timestamptz not null,           -- no claim ends before this
  primary key (queue_id, n)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Items of these groups have left a worker's hands: the first of each may be claimed. Read, and thrown away, by claims.
create table turno.inbox_freed (
  id           bigint      generated always as identity,
  queue_id     integer     not null,
  groups       text[]      not null,           -- a hundred at the most
  primary key (queue_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Unique keys, for as long as their item or the record of its completion is there.
create table turno.inbox_key (
  queue_id     integer     not null,
  key          text        collate "C" not null,
  id           bigint      not null,
  done_at      timestamptz,
  primary key (queue_id, key)
);

create index inbox_key_done on turno.inbox_key (done_at) where done_at is not null;

-- What was completed: one row a call, claim and queue. It is also what answers the same call, should it be repeated.
create table turno.inbox_done (
  request      uuid           not null,
  token        uuid           not null,
  queue_id     integer        not null,
  at           timestamptz    not null,
  worker       text           not null,
  ids          int8multirange not null,
  primary key (request, token, queue_id)
);

create index inbox_done_at on turno.inbox_done (queue_id, at);

-- What was set aside.
create table turno.inbox_failed (
  id           bigint      primary key,
  lane         integer     not null,
  failed_at    timestamptz not null,
  pushed_at    timestamptz not null,
  attempts     smallint    not null,
  abandoned    smallint    not null,
  max_attempts smallint    not null,
  "group"      text,
  key          text,
  errors       jsonb,
  payload      json        not null,
  worker       text
);

create index inbox_failed_queue on turno.inbox_failed ((lane / 4), id);
create index inbox_failed_oldest on turno.inbox_failed ((lane / 4), failed_at);

-- The answers of calls that may be repeated because they were lost.
create table turno.inbox_request (
  request      uuid        primary key,
  at           timestamptz not null,
  answer       jsonb       not null
);

create index inbox_request_at on turno.inbox_request using brin (at);

-- Counters: the sum of a queue's row in inbox_total and its rows in inbox_tally, which are folded into it
-- now and then. So nobody who pushes waits for anybody else.
create table turno.inbox_total (
  queue_id     integer     primary key,
  items        bigint      not null default 0, -- pending, scheduled and processing
  timed        bigint      not null default 0, -- those of them that wait for a time, past or to come
  completed    bigint      not null default 0,
  failed       bigint      not null default 0
) with (fillfactor = 50);

create table turno.inbox_tally (
  queue_id     integer     not null,
  items        integer     not null default 0,
  timed        integer     not null default 0,
  completed    integer     not null default 0,
  failed       integer     not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How far each schedule has got.
create table turno.schedule (
  name         text        collate "C" primary key,
  last         timestamptz not null
) with (fillfactor = 50);

create type turno.inbox_pushed as (id bigint, duplicate boolean);

create type turno.inbox_taken as (
  id           bigint,
  attempt      integer,
  max_attempts integer,
  payload      json,
  key          text,
  "group"      text,
  priority     integer,
  pushed_at    timestamptz,
  expires_at   timestamptz
);

create type turno.inbox_claimed as (
  id           bigint,
  claim        text,
  attempt      integer,
  max_attempts integer,
  payload      json,
  key          text,
  "group"      text,
  priority     integer,
  pushed_at    timestamptz,
  expires_at   timestamptz
);

create type turno.inbox_settled as (done bigint, stale text[]);

create type turno.inbox_counts as (
  queue          text,
  total          bigint,
  pending        bigint,
  scheduled      bigint,
  processing     bigint,
  completed      bigint,
  failed         bigint,
  oldest_pending interval
);

create type turno.inbox_view as (
  id           bigint,
  state        text,
  payload      json,
  key          text,
  "group"      text,
  priority     integer,
  attempts     integer,
  abandoned    integer,
  worker       text,
  pushed_at    timestamptz,
  at           timestamptz,
  errors       jsonb
);

alter type turno.swept add attribute completed bigint;
-- It gets another argument.
drop function if exists turno.sweep(interval, interval, integer);

insert into turno.migration (version, name) values (2, '0002_inbox');

-- Migration 0003_adopt

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

insert into turno.migration (version, name) values (3, '0003_adopt');

-- Migration 0004_outbox

-- The outbox. An event is an item of the queue $outbox, its ordering key the item's group, a relay the worker: so there is
-- one engine for both, and the row of a claim (inbox_batch) is the journal of what a relay has in flight.
--
-- The item's key is the event's id, its payload the event as outbox_emit.sql puts it together.

-- Names that begin with $ are Turno's own, and nobody can push to them.
with made as (
  insert into turno.inbox_queue (name)
  values ('$outbox')
  returning id),
counted as (
  insert into turno.inbox_total (queue_id)
  select m.id
  from made m)
insert into turno.inbox_cursor (queue_id, n, at_id, floor_id, floor_n, late_at, late_cost, due_from, due_at, expiry)
select m.id, 0, '{0,0,0,0}', '{0,0,0,0}', 0, clock_timestamp(), '0', '-infinity', clock_timestamp(), 'infinity'
from made m;

-- Dead events are found by their ids and by their keys.
create index inbox_failed_key on turno.inbox_failed ((lane / 4), key) where key is not null;
create index inbox_failed_group on turno.inbox_failed ((lane / 4), "group") where "group" is not null;

-- What has left the outbox: one row for each batch, 16 bytes an event.
create table turno.outbox_sent (
  n            bigint      generated always as identity primary key,
  at           timestamptz not null,
  outcome      text        not null,           -- dispatched, or discarded by a person
  "by"         text        not null,           -- the relay, or the person
  ids          uuid[]      not null
);

create index outbox_sent_at on turno.outbox_sent using brin (at);

-- Whole events that were dispatched, where somebody wants to keep them.
create table turno.outbox_archive (
  id            uuid        not null,
  seq           bigint      not null,
  key           text,
  emitted_at    timestamptz not null,
  dispatched_at timestamptz not null,
  relay         text        not null,
  event         json        not null
);

create index outbox_archive_id on turno.outbox_archive (id);
create index outbox_archive_at on turno.outbox_archive using brin (dispatched_at);

-- Keys of which an event is dead and the later ones are set aside with it.
create table turno.outbox_parked (
  key          text        collate "C" primary key,
  id           uuid        not null,           -- the one that is to blame
  at           timestamptz not null
);

-- What consumers have handled.
create table turno.seen (
  consumer     text        collate "C" not null,
  event_id     uuid        not null,
  at           timestamptz not null,
  primary key (consumer, event_id)
);

create index seen_at on turno.seen using brin (at);

create type turno.outbox_claimed as (
  seq          bigint,
  id           uuid,
  key          text,
  event        json,
  emitted_at   timestamptz,
  refused      integer,                        -- attempts that the broker refused
  doubtful     integer,                        -- attempts after which it may have arrived
  parked       boolean,
  expires_at   timestamptz
);

create type turno.outbox_settled as (sent bigint, refused bigint, returned bigint, stale bigint);

create type turno.outbox_counts as (
  total          bigint,
  pending        bigint,
  scheduled      bigint,
  processing     bigint,
  dispatched     bigint,
  dead           bigint,
  blocked        bigint,
  parked_keys    bigint,
  oldest_pending interval
);

create type turno.outbox_view as (
  seq          bigint,
  id           uuid,
  state        text,
  key          text,
  event        json,
  refused      integer,
  doubtful     integer,
  "by"         text,
  emitted_at   timestamptz,
  at           timestamptz,
  errors       jsonb
);

-- Whoever claims is told how often the item was abandoned, and may pass over the order of groups.
alter type turno.inbox_taken add attribute abandoned integer;
drop function if exists turno.inbox_claim_batch(text, text, integer, interval, uuid, boolean);
drop function if exists turno.inbox_take(turno.inbox_cursor, integer, boolean, boolean, integer, uuid, text, timestamptz);
drop function if exists turno.inbox_line(integer, bigint, integer, text[], bigint[]);

alter type turno.swept add attribute seen bigint, add attribute archived bigint;
-- It gets more arguments.
drop function if exists turno.sweep(interval, interval, integer, interval);

insert into turno.migration (version, name) values (4, '0004_outbox');

-- Migration 0005_once

-- Once: who runs the work of a request, and what was answered. One row a key, made when the work begins; nothing but a
-- sweep or a person deletes it. What its columns mean at a moment (in flight, done, unknown, gone) is said in
-- once_state (sql/once_begin.sql), and nowhere else.

create table turno.once (
  key          text        collate "C" primary key,
  fingerprint  text,                           -- of the content; null: not compared
  state        text        not null,           -- running, done, released
  token        bigint      not null,           -- whose work counts; only grows
  attempt      integer     not null,
  request      uuid        not null,           -- the begin that made it so
  worker       text,                           -- who runs it, as people see it
  began_at     timestamptz not null,
  until        timestamptz not null,           -- running: the lease's end; done: the answer's
  ttl          interval    not null,           -- how long the answer is kept
  waited_until timestamptz,                    -- somebody waits for the answer, and is to be called
  scope        text,                           -- whose quota it counts against
  late         integer     not null default 0, -- how many stale answers came
  sweep_at     timestamptz not null,           -- not before this is it worth a look
  answer       json                            -- null and done: the answer was not stored
)
-- An answer is written beside its claim, on the same page.
with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- As a rule neither of these changes when an answer is stored, so that no index has to be written then.
create index once_sweep on turno.once (sweep_at);
create index once_scope on turno.once (scope, sweep_at) where scope is not null;

create type turno.once_outcome as (
  outcome      text,                           -- fresh, replay, in_flight, mismatch, unknown, over_quota; later
  key          text,
  token        bigint,
  attempt      integer,
  answer       json,
  began_at     timestamptz,
  expires_at   timestamptz,
  remaining    interval,
  worker       text,
  claim        text                            -- fresh: what once_complete and once_release are given
);

create type turno.once_view as (
  key          text,
  state        text,                           -- in_flight, done, unknown
  claim        text,
  attempt      integer,
  fingerprint  text,
  worker       text,
  scope        text,
  began_at     timestamptz,
  expires_at   timestamptz,
  late         integer,
  answer       json
);

alter type turno.swept add attribute once bigint;

insert into turno.migration (version, name) values (5, '0005_once');

-- Migration 0006_access

-- Access tokens: who may ask a server. A few rows, for people; none is ever deleted, so that it stays known that there
-- were some. Of a secret only its hash is kept.

create table turno.access (
  id           text        collate "C" primary key, -- its public part
  hash         bytea       not null,                -- SHA-256 of its secret part
  name         text        not null,                -- what people call it
  role         text        not null,                -- read, operate, admin
  prefix       text        not null,                -- the beginning of the names that it allows; empty: all
  created_at   timestamptz not null,
  expires_at   timestamptz,                         -- null: not by itself
  revoked_at   timestamptz
);

create index access_created on turno.access (created_at);

create type turno.access_view as (
  id           text,
  name         text,
  role         text,
  prefix       text,
  state        text,                                -- live, expired, revoked
  created_at   timestamptz,
  expires_at   timestamptz,
  revoked_at   timestamptz
);

insert into turno.migration (version, name) values (6, '0006_access');

-- Migration 0007_deed

-- Deeds: what people did by hand to queues, events and once keys, and why. They are part of the history, as the ends of
-- holdings are, and are numbered with them; in a table of their own, because a program of the version before reads that of
-- locks, and does not know them.

create table turno.deed (
  id          bigint      primary key,       -- of the history's numbers
  at          timestamptz not null,
  part        text        not null,          -- inbox, outbox, once
  event       text        not null,          -- requeued, reset, discarded, forgotten
  resource    text        collate "C" not null, -- the queue or the key; empty: the outbox has no name
  count       bigint      not null,          -- of items, events or keys
  actor       text,                          -- the person
  reason      text
);

create index deed_resource on turno.deed (resource, id);

create type turno.history_entry as (
  id          bigint,
  at          timestamptz,
  part        text,                          -- lock, inbox, outbox, once
  event       text,
  resource    text,
  count       bigint,                        -- null for locks, and the columns from here to the actor for the others
  token       bigint,
  mode        text,
  owner       text,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  actor       text,
  reason      text
);

-- They say now who does it, and why. A program of the version before calls the new ones, without.
drop function if exists turno.inbox_requeue(text, bigint[], integer);
drop function if exists turno.inbox_reset(text, interval, integer);
drop function if exists turno.outbox_requeue(uuid[], integer);
drop function if exists turno.outbox_discard(uuid[], text);
drop function if exists turno.once_forget(text);

insert into turno.migration (version, name) values (7, '0007_deed');

-- Migration 0008_batch

-- No table changes: many acquires at once look at their callers' names together (sql/lock_batch.sql).

insert into turno.migration (version, name) values (8, '0008_batch');

-- Migration 0009_managed

-- PostgreSQL as its ordinary users have it: an owner without superuser rights, failover, rolling upgrades, silence
-- when idle.

-- Functions of the user's own that adopt has replaced: their signatures, and the statements by which unadopt
-- restores them.
alter table turno.adopted
  add column replaced text[] not null default '{}',
  add column restore  text[] not null default '{}';

-- These have other arguments now.
drop function if exists turno.adopt(text, text, text, text, text, integer);
drop function if exists turno.adopt_print(text, text, text, text, text, integer);
drop function if exists turno.adopt_apply(turno.adopted);
drop function if exists turno.adopt_plan(turno.adopted);
drop function if exists turno.adopt_refuse_taken(turno.adopted, text[]);
drop function if exists turno.adopt_make_function(turno.adopted, turno.adopt_function);

-- A program that is older than the schema works on if it was built for this version or a later one. Null: only programs of
-- the version itself.
alter table turno.migration
  add column oldest_program integer;

-- The sequence of an unlogged table is unlogged since PostgreSQL 15. A promoted standby may find it without its first page
-- ("bad magic number in sequence"), and then no waiter can sign in.
do $$
begin
  if current_setting('server_version_num')::integer >= 150000 then
    execute 'alter sequence turno.lock_waiter_ticket_seq set logged';
  end if;
end
$$;

-- When the store was last swept, for `turno doctor`. One row.
create table turno.sweep_last (
  single boolean     primary key default true check (single),
  at     timestamptz not null default clock_timestamp(),
  "by"   text
);

insert into turno.sweep_last default values;

-- Who listens to a queue, by its name: it may have no row in inbox_queue yet. Unlogged: a crash ends every connection, and
-- one that listens again marks again.
create unlogged table turno.inbox_listener (
  queue        text        collate "C" primary key,
  until        timestamptz not null,           -- an idle worker listens until then: a push must notify
  since        xid8                            -- transactions from this one on have seen the mark; null: not known yet
) with (fillfactor = 50);

alter table turno.inbox_queue drop column idle_until;

insert into turno.migration (version, name) values (9, '0009_managed');

-- Migration 0010_limits

-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- What is in flight or unknown, among millions of kept answers: for the dashboard's feed, and for lists of these states.
create index once_open on turno.once (key) where state = 'running';

-- It gets another argument.
drop function if exists turno.inbox_claim_batch(text, text, integer, interval, uuid, boolean, boolean);

-- A claim has a limit in bytes. So that claims need not look at the sizes of items which are all small, a queue knows how large its
-- payloads have been: a power of two, 1024 at the least.
do $$
declare
  queues  integer[];
  largest integer[];
begin
  -- Before the table is locked.
  select array_agg(s.queue_id), array_agg(s.largest) into queues, largest
  from (
    select i.lane / 4 as queue_id, max(octet_length(i.payload::text)) as largest
    from (
      select lane, payload from turno.inbox_item
      union all
      select lane, payload from turno.inbox_failed) i
    group by i.lane / 4) s;
  alter table turno.inbox_kind add column bytes integer not null default 1024;
  insert into turno.inbox_kind (queue_id, lanes, grouped, bytes)
  select u.queue_id, 0, false, (2 ^ least(ceil(log(2, u.largest)), 30))::integer
  from unnest(queues, largest) u(queue_id, largest)
  where u.largest > 1024;
end
$$;

-- Outbox retries. An event has no limit of attempts of its own: the relay decides when it is dead. 0 stands for that.
update turno.inbox_item
set max_attempts = 0
where lane = (select q.id * 4 + 1 from turno.inbox_queue q where q.name = '$outbox');

update turno.inbox_failed
set max_attempts = 0
where lane = (select q.id * 4 + 1 from turno.inbox_queue q where q.name = '$outbox');

-- A smallint overflows after 32,767 outages of a sink. This rewrites both tables.
alter table turno.inbox_item
  alter column attempts     type integer,
  alter column abandoned    type integer,
  alter column max_attempts type integer;

alter table turno.inbox_failed
  alter column attempts     type integer,
  alter column abandoned    type integer,
  alter column max_attempts type integer;

-- It has more arguments now.
drop function if exists turno.outbox_settle(
  uuid, int8multirange, bigint[], text[], interval[], text[], int8multirange, boolean, uuid);

-- The sweep can delete failed items that are too old, and has an argument for it.
alter type turno.swept add attribute failed bigint;
drop function if exists turno.sweep(interval, interval, integer, interval, interval, interval);

insert into turno.migration (version, name) values (10, '0010_limits');

-- Migration 0011_reviewed

-- The rest of the review under faults: settings of the database, deeds of persons, wake-ups without names.

-- Settings of the whole database, which only its owner changes. No row: the default.
create table turno.setting (
  name  text collate "C" primary key,
  value text not null
);

insert into turno.migration (version, name) values (11, '0011_reviewed');

-- Function file lock_token

-- Purpose: where fencing tokens come from.
-- Index:   lock_pkey.

-- A token follows the clock, in microseconds, and is one more than the last whenever the clock has
-- not moved on (or has moved back). So a database restored from a backup still grants tokens above
-- those it has forgotten, with nobody having to remember to tell it.
create or replace function turno.lock_tick() returns bigint
language sql
volatile
as $$
  select (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$$;

-- Lifts a new row's token above that of every row ever purged.
create or replace function turno.lock_above_floor(resource text, token bigint) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  floor bigint;
begin
  select f.token into floor
  from turno.lock_floor f;
  if floor < lock_above_floor.token then
    return lock_above_floor.token;
  end if;
  update turno.lock t
  set token = floor + 1
  where t.resource = lock_above_floor.resource;
  return floor + 1;
end
$$;

-- Function file lock_check

-- Purpose: refuse what no lock may have, naming the field and the remedy. Nothing is stored then.
-- Index:   none.

create or replace function turno.check_name(field text, value text, longest integer) returns void
language plpgsql
immutable
as $$
begin
  if value is null or value = '' then
    raise exception '% is empty', field
      using errcode = 'invalid_parameter_value', hint = format('Give %s 1 to %s bytes of text.', field, longest);
  end if;
  if octet_length(value) > longest then
    raise exception '% has % bytes, and % is the most', field, octet_length(value), longest
      using errcode = 'invalid_parameter_value', hint = 'Shorten it, or use a hash of it.';
  end if;
  if value ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '% has a control character', field
      using errcode = 'invalid_parameter_value', hint = 'Remove line breaks, tabs and other control characters.';
  end if;
end
$$;

create or replace function turno.lock_check(ask turno.lock_ask) returns void
language plpgsql
as $$
begin
  perform turno.check_name('resource', ask.resource, 255);
  perform turno.check_name('owner', ask.owner, 255);
  if ask."user" is not null then perform turno.check_name('user', ask."user", 255); end if;
  if ask.service is not null then perform turno.check_name('service', ask.service, 255); end if;
  if ask.description is not null then perform turno.check_name('description', ask.description, 1000); end if;
  if ask.host is not null then perform turno.check_name('host', ask.host, 255); end if;
  if ask.ttl is null or ask.ttl < '1 millisecond' then
    raise exception 'ttl is %, and must be at least 1 ms', coalesce(ask.ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two renewals, such as 30 seconds.';
  end if;
  if ask.max_ttl is null or ask.ttl > ask.max_ttl then
    raise exception 'ttl is %, and % is the most', ask.ttl, coalesce(ask.max_ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter lease and renew it, or raise max_ttl.';
  end if;
  if ask.min_hold < '0' or ask.min_hold > ask.ttl then
    raise exception 'min_hold is %, and must be between 0 and the ttl (%)', ask.min_hold, ask.ttl
      using errcode = 'invalid_parameter_value', hint = 'Raise the ttl or lower min_hold.';
  end if;
  if ask.max_hold < '1 millisecond' or ask.max_hold < ask.min_hold then
    raise exception 'max_hold is %, and must be above 0 and not below min_hold', ask.max_hold
      using errcode = 'invalid_parameter_value', hint = 'Raise max_hold, or leave it out.';
  end if;
  if ask.mode is null or ask.mode not in ('exclusive', 'shared') then
    raise exception 'mode is %, and must be exclusive or shared', coalesce(quote_literal(ask.mode), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave mode out for an exclusive lock.';
  end if;
  if ask.permits not between 1 and 10000 then
    raise exception 'permits is %, and must be between 1 and 10000', ask.permits
      using errcode = 'invalid_parameter_value', hint = 'Leave permits out for an exclusive lock, or use mode shared for any number.';
  end if;
end
$$;

-- Function file lock_rules

-- Purpose: the small rules that the lock functions share. None of them is for callers.
-- Index:   lock_waiter_pkey, lock_hold_pkey, lock_history_resource.

-- An answer about a lock row. The token is the holder's alone: whoever is told "busy" does not get it.
create or replace function turno.lock_answer(outcome text, l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  held_until timestamptz;
begin
  if l.mode = 'shared' then
    l := turno.lock_gate_live(l);
  end if;
  held_until := case when l.holds > 0 then l.expires_at else l.min_until end;
  if outcome <> 'busy' then
    return row(outcome, l.resource, l.owner, l.token, l.holds, l.acquired_at, l.expires_at,
               l.expires_at - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  if held_until > clock_timestamp() then
    return row(outcome, l.resource, l.owner, null, l.holds, l.acquired_at, held_until,
               held_until - clock_timestamp(), l."user", l.service, l.description)::turno.lock_outcome;
  end if;
  return turno.lock_answer_soon(l.resource);
end
$$;

-- "Busy" without a time to wait for: free, but others are in line, or a row is being changed this very moment.
create or replace function turno.lock_answer_soon(resource text) returns turno.lock_outcome
language sql
immutable
as $$
  select row('busy', resource, null, null, 0, null, null, '0'::interval, null, null, null)::turno.lock_outcome
$$;

-- The rule that the usual winner meets: free, rested, and nobody in line. (lock_take has the whole of it.)
-- The planner puts it in place, so that it costs no call.
create or replace function turno.lock_is_free(l turno.lock) returns boolean
language sql
volatile
as $$
  select l.holds = 0
    and (l.min_until is null or l.min_until <= clock_timestamp())
    and (l.fifo_until is null or l.fifo_until <= clock_timestamp())
$$;

-- Names that are plainly good. Whatever is not is looked at again by lock_check, with an eye to the message.
-- (Stable, as concat_ws is: declared immutable, it could not be put in place, and would cost a call.)
create or replace function turno.lock_is_plain(
  owner text, "user" text, service text, description text, host text
) returns boolean
language sql
stable
as $$
  select octet_length(concat_ws('-', owner, "user", service, description, host)) <= 255
    and concat_ws('-', owner, "user", service, description, host) !~ '[[:cntrl:]]'
    and '' <> all (array[
      owner, coalesce("user", '-'), coalesce(service, '-'), coalesce(description, '-'), coalesce(host, '-')])
$$;

-- Refuses one hold more than an owner may have of one resource: each is kept until it is released, and the row grows with it.
create or replace function turno.lock_check_holds(holds integer) returns void
language plpgsql
immutable
as $$
begin
  if holds >= 1000 then
    raise exception 'owner has entered the resource % times, and 1000 is the most', holds
      using errcode = 'invalid_parameter_value', hint = 'Release what was acquired, or give each holder an owner of its own.';
  end if;
end
$$;

-- Is this owner the next in line? Cheap while nobody queues: the answer is in the row.
create or replace function turno.lock_is_next(l turno.lock, owner text) returns boolean
language plpgsql
as $$
begin
  if l.fifo_until is null or l.fifo_until <= clock_timestamp() then
    return true;
  end if;
  return coalesce(
    (select w.owner = lock_is_next.owner
     from turno.lock_waiter w
     where w.resource = l.resource
       and w.fifo
       and w.alive_until > clock_timestamp()
     order by w.ticket
     limit 1),
    true);
end
$$;

-- May this transaction make the row of a resource? Two that try at once must not wait for each other.
create or replace function turno.lock_may_create(resource text) returns boolean
language sql
volatile
as $$
  select pg_try_advisory_xact_lock(hashtextextended('turno.lock/' || resource, 0))
$$;

-- Was a lease ended by this very request, or given back with all its holds, this one among them? Then
-- it is being asked again because its answer was lost.
create or replace function turno.lock_was_ended(
  resource text,
  token    bigint,
  request  uuid,
  hold     uuid default null
) returns boolean
language sql
stable
as $$
  select exists (
    select
    from (
      select r.token, r.event, r.request
      from turno.lock_history r
      where r.resource = lock_was_ended.resource
      order by r.id desc
      limit 100) h
    where h.token = lock_was_ended.token
      and (h.request = lock_was_ended.request
        or (h.event = 'released' and lock_was_ended.hold is not null)))
$$;

-- The last eight releases that named no hold, so that one whose answer was lost can be sent again.
create or replace function turno.lock_remember(requests uuid[], request uuid) returns uuid[]
language sql
immutable
as $$
  select case
    when request is null then requests
    else (requests || request)[greatest(cardinality(requests) - 6, 1):]
  end
$$;

-- Ends whatever a row still holds, with one history row for each holding; says how many there were.
-- Changes no lock row.
create or replace function turno.lock_close(
  l       turno.lock,
  event   text,
  actor   text default null,
  reason  text default null,
  request uuid default null
) returns bigint
language plpgsql
as $$
begin
  if l.holds = 0 then
    return 0;
  end if;
  if l.mode = 'exclusive' then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid,
      acquired_at, expires_at, actor, reason, request)
    values (
      lock_close.event, l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description,
      l.host, l.pid, l.acquired_at, l.expires_at, lock_close.actor, lock_close.reason,
      lock_close.request);
    return 1;
  end if;
  return turno.lock_close_holds(l.resource, lock_close.event);
end
$$;

-- Records that a release or a renewal came too late: once for each lease and kind, however often a
-- zombie repeats it, and only for a token that was really granted.
create or replace function turno.lock_late(resource text, token bigint, what text) returns void
language sql
as $$
  with lately as (
    select r.*
    from turno.lock_history r
    where r.resource = lock_late.resource
    order by r.id desc
    limit 100)
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, reason)
  select
    'late', h.resource, h.token, h.mode, h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, lock_late.what
  from lately h
  where h.token = lock_late.token
    and not exists (
      select
      from lately o
      where o.token = lock_late.token
        and o.event = 'late'
        and o.reason = lock_late.what)
  order by h.id desc
  limit 1
$$;

-- A waiter in line that has died must not keep those behind it waiting: when a resource is released, all in line have ten
-- seconds to take it, or to sign in again.
create or replace function turno.lock_line_soon(resource text) returns void
language sql
as $$
  update turno.lock_waiter w
  set alive_until = clock_timestamp() + '10 seconds'
  where w.resource = lock_line_soon.resource
    and w.owner in (
      select o.owner
      from turno.lock_waiter o
      where o.resource = lock_line_soon.resource
        and o.fifo
        and o.alive_until > clock_timestamp() + '10 seconds'
      -- One that is just signing in is alive.
      for update skip locked)
$$;

-- Tells the waiters of a resource to look again, if there are any. A notification costs every commit
-- of the database a little, so it is not sent for nobody.
create or replace function turno.lock_call(l turno.lock) returns void
language plpgsql
as $$
begin
  if l.waited_until > clock_timestamp() then
    perform pg_notify('turno_lock', l.resource);
  end if;
  if l.fifo_until > clock_timestamp() + '10 seconds' then
    perform turno.lock_line_soon(l.resource);
  end if;
end
$$;

-- Function file lock_holders

-- Purpose: every live holding, exclusive or shared, as one list. For the functions that show locks.
-- Index:   lock_pkey, lock_hold_pkey, lock_waiter_pkey.

create or replace view turno.lock_holders as
select
  t.resource, true as locked, t.mode,
  coalesce(h.owner, t.owner) as owner,
  coalesce(h.token, t.token) as token,
  coalesce(h.holds, t.holds) as holds,
  coalesce(h.acquired_at, t.acquired_at) as acquired_at,
  coalesce(h.expires_at, t.expires_at) as expires_at,
  coalesce(h.expires_at, t.expires_at) - clock_timestamp() as remaining,
  case when t.mode = 'shared' then h."user" else t."user" end as "user",
  case when t.mode = 'shared' then h.service else t.service end as service,
  case when t.mode = 'shared' then h.description else t.description end as description,
  case when t.mode = 'shared' then h.host else t.host end as host,
  case when t.mode = 'shared' then h.pid else t.pid end as pid,
  case
    when t.waited_until > clock_timestamp() then
      (select count(*) from turno.lock_waiter w
       where w.resource = t.resource and w.alive_until > clock_timestamp())
    else 0
  end as waiters
from turno.lock t
left join turno.lock_hold h
  on t.mode = 'shared'
  and h.resource = t.resource
where t.holds > 0
  -- Of a shared lock the holds decide: the gate is not told of a renewal that found it locked.
  and case when t.mode = 'shared' then h.expires_at else t.expires_at end > clock_timestamp();

-- Function file lock_acquire

-- Purpose: take a resource: acquired, reentered or busy. Exclusive locks are decided in this file,
--          shared holds and permits in lock_share.sql, waiting in lock_acquire_wait.sql.
-- Index:   lock_pkey.
--
-- The rule: a lock may be taken when it is free or expired, its min_hold has passed, and nobody who
-- asked for FIFO stands ahead. Its own live owner enters again, with the same token.
--
-- Losing writes nothing: what may be taken is found by the condition under which it is locked, so a row
-- that may not is only read. Time is read inside that statement and never before it, because a statement
-- may wait; and `skip locked` makes a row that somebody else is just changing an answer (busy).
--
-- The row of a shared lock is the gate of its holds, and a hint: a release or a renewal that finds it locked
-- does not change it. Whether such a lock is held, and until when, is read from lock_hold.

create or replace function turno.lock_acquire(
  resource    text,
  owner       text     default null,
  ttl         interval default '30 seconds',
  "user"      text     default null,
  service     text     default null,
  description text     default null,
  wait        interval default null,
  mode        text     default 'exclusive',
  permits     integer  default null,
  min_hold    interval default null,
  max_hold    interval default null,
  host        text     default null,
  pid         integer  default null,
  request     uuid     default null,
  max_ttl     interval default '24 hours'
) returns turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  seen turno.lock_outcome;
  got  turno.lock_outcome;
begin
  owner := coalesce(owner, gen_random_uuid()::text);
  if wait is not null or permits is not null or mode is distinct from 'exclusive' then
    return turno.lock_acquire_wait(
      row(resource, owner, ttl, "user", service, description, mode, permits, min_hold, max_hold,
          host, pid, request, max_ttl)::turno.lock_ask,
      wait);
  end if;

  -- The usual winner: the row is there, free, with nobody in line, and the arguments are plainly good.
  if ttl between '1 millisecond' and max_ttl
     and min_hold is null
     and max_hold is null
     and turno.lock_is_plain(owner, "user", service, description, host) then
    update turno.lock t
    set token       = greatest(t.token + 1, turno.lock_tick()),
        mode        = 'exclusive',
        owner       = lock_acquire.owner,
        holds       = 1,
        acquired_at = clock_timestamp(),
        expires_at  = clock_timestamp() + ttl,
        min_until   = null,
        max_until   = null,
        "user"      = lock_acquire."user",
        service     = lock_acquire.service,
        description = lock_acquire.description,
        host        = lock_acquire.host,
        pid         = lock_acquire.pid,
        hold_ids    = array[coalesce(request, gen_random_uuid())],
        requests    = '{}'
    where t.resource = (
      select k.resource
      from turno.lock k
      where k.resource = lock_acquire.resource
        and turno.lock_is_free(k)
      for update skip locked)
    returning
      'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
      t.expires_at - clock_timestamp(), t."user", t.service, t.description
    into got;
    if found then
      return got;
    end if;
  end if;

  -- The holder, in the shape of the answer that most losers get.
  select
    'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
    t.expires_at - clock_timestamp(), t."user", t.service, t.description
  into seen
  from turno.lock t
  where t.resource = lock_acquire.resource;

  -- The gate of shared holds has no owner, and does not decide.
  if seen.holds > 0 and seen.remaining > '0' and seen.owner not in (lock_acquire.owner, '') then
    return seen;
  end if;

  return turno.lock_take(
    row(resource, owner, ttl, "user", service, description, mode, permits, min_hold, max_hold,
        host, pid, request, max_ttl)::turno.lock_ask);
end
$$;

comment on function turno.lock_acquire is
  'Takes a resource. outcome: acquired (token is the fencing token), reentered (same owner: same token, one hold more) or busy (remaining, user, service and description tell who has it; token is null; nothing is written). wait retries for that long; mode shared or permits N let several hold it at once.';

-- The same rule, for every other case: a new resource, an expired holder, a queue, a re-entry.
create or replace function turno.lock_take(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  was turno.lock;
  now turno.lock;
begin
  perform turno.lock_check(ask);
  ask.request := coalesce(ask.request, gen_random_uuid());

  select * into was
  from turno.lock t
  where t.resource = ask.resource;

  if was.resource is null then
    return turno.lock_create(ask);
  end if;

  if was.mode = 'shared' then
    if turno.lock_is_shared(was.resource)
       or was.min_until > clock_timestamp()
       or not turno.lock_is_next(was, ask.owner) then
      return turno.lock_answer('busy', was);
    end if;
    -- Waiters and releases lock the gate for moments, and the last of them may notify no more: it is worth a few tries.
    if not turno.lock_enter_gate(was.resource) then
      return turno.lock_answer_soon(was.resource);
    end if;
  elsif was.holds > 0 and was.expires_at > clock_timestamp() then
    if was.owner <> ask.owner then
      return turno.lock_answer('busy', was);
    end if;
    if ask.request <> all (was.hold_ids) then
      perform turno.lock_check_holds(was.holds);
    end if;
    -- The request is the hold's name. Whether it was applied before is asked in the update itself: the
    -- same request may be under way twice, because its connection broke while it waited.
    update turno.lock t
    set holds      = t.holds + 1,
        expires_at = greatest(t.expires_at, least(clock_timestamp() + ask.ttl, t.max_until)),
        hold_ids   = t.hold_ids || ask.request
    where t.resource = ask.resource
      and t.token = was.token
      and t.holds > 0
      and t.expires_at > clock_timestamp()
      and ask.request <> all (t.hold_ids)
    returning * into now;
    if found then
      return turno.lock_answer('reentered', now);
    end if;
    select * into now
    from turno.lock t
    where t.resource = ask.resource
      and t.token = was.token
      and t.expires_at > clock_timestamp()
      and ask.request = any (t.hold_ids);
    if found then
      return turno.lock_answer(case when now.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, now);
    end if;
    -- It expired, or was broken, this very moment: go on as anybody else would.
  end if;

  select * into was
  from turno.lock t
  where t.resource = ask.resource
    and (t.holds = 0
      or t.expires_at <= clock_timestamp()
      or (t.mode = 'shared' and not turno.lock_is_shared(t.resource)))
    and (t.min_until is null or t.min_until <= clock_timestamp())
    and turno.lock_is_next(t, ask.owner)
  for update skip locked;
  if not found then
    select * into was
    from turno.lock t
    where t.resource = ask.resource;
    return turno.lock_answer('busy', was);
  end if;
  if was.mode = 'shared' and not turno.lock_all_over(was.resource) then
    return turno.lock_answer('busy', was);
  end if;

  perform turno.lock_close(was, 'taken_over');
  update turno.lock t
  set token       = greatest(t.token + 1, turno.lock_tick()),
      mode        = 'exclusive',
      owner       = ask.owner,
      holds       = 1,
      acquired_at = clock_timestamp(),
      expires_at  = clock_timestamp() + least(ask.ttl, ask.max_hold),
      min_until   = clock_timestamp() + ask.min_hold,
      max_until   = clock_timestamp() + ask.max_hold,
      "user"      = ask."user",
      service     = ask.service,
      description = ask.description,
      host        = ask.host,
      pid         = ask.pid,
      hold_ids    = array[ask.request],
      requests    = '{}'
  where t.resource = ask.resource
  returning * into now;
  return turno.lock_answer('acquired', now);
end
$$;

-- A resource that was never seen, or was purged. An insert would wait for another's, perhaps for the
-- whole of a long transaction; the advisory lock makes that an answer as well.
create or replace function turno.lock_create(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  now turno.lock;
begin
  if not turno.lock_may_create(ask.resource) then
    now.resource := ask.resource;
    return turno.lock_answer('busy', now);
  end if;
  insert into turno.lock as t (
    resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
    "user", service, description, host, pid, hold_ids)
  values (
    ask.resource, turno.lock_tick(), 'exclusive', ask.owner, 1,
    clock_timestamp(),
    clock_timestamp() + least(ask.ttl, ask.max_hold),
    clock_timestamp() + ask.min_hold,
    clock_timestamp() + ask.max_hold,
    ask."user", ask.service, ask.description, ask.host, ask.pid, array[ask.request])
  on conflict do nothing
  returning * into now;
  if not found then
    select * into now
    from turno.lock t
    where t.resource = ask.resource;
    return turno.lock_answer('busy', now);
  end if;
  -- Read after the insert: if that had to wait for a purge of this very row, the floor is up by now.
  now.token := turno.lock_above_floor(now.resource, now.token);
  return turno.lock_answer('acquired', now);
end
$$;

-- Function file lock_share

-- Purpose: the rule of shared holds and permits: one more may enter while no live exclusive holder is
--          there, fewer than `permits` live holds are, and nobody who asked for FIFO stands ahead.
--          Mode shared without permits means as many as the bound allows.
-- Index:   lock_pkey, lock_hold_pkey.
--
-- The lock row is the gate: it is read first (losing writes nothing), then locked, so that counting
-- and entering are one step. Readers wait for each other there, for the length of one insert; a gate
-- that stays locked, because of a stranger's long transaction, is an answer (busy). A guarded hold
-- cannot be locked, and so not be ended: it counts as there, even when its time is up.
--
-- What the gate says of its holds is a hint. The holds decide (lock_is_shared, lock_may_share), because a release never
-- waits for the gate: of readers that release together, one writes the gate and counts the others as still there.

create or replace function turno.lock_share(ask turno.lock_ask) returns turno.lock_outcome
language plpgsql
as $$
declare
  l     turno.lock;
  h     turno.lock_hold;
  most  integer := coalesce(ask.permits, 10000);
begin
  perform turno.lock_check(ask);
  ask.request := coalesce(ask.request, gen_random_uuid());

  select * into l
  from turno.lock t
  where t.resource = ask.resource;

  if l.resource is null then
    -- The gate itself, free: its token is only the base of the holds' tokens.
    if not turno.lock_may_create(ask.resource) then
      l.resource := ask.resource;
      return turno.lock_answer('busy', l);
    end if;
    insert into turno.lock as t (resource, token, mode, owner, holds, acquired_at, expires_at)
    values (ask.resource, turno.lock_tick(), 'shared', '', 0, clock_timestamp(), 'epoch')
    on conflict do nothing
    returning * into l;
    if found then
      perform turno.lock_above_floor(l.resource, l.token);
    end if;
  elsif l.holds > 0 and l.expires_at > clock_timestamp() and l.mode = 'exclusive' and l.owner = ask.owner then
    return turno.lock_take(ask);
  elsif not turno.lock_may_share(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;

  if not turno.lock_enter_gate(ask.resource) then
    return turno.lock_answer_soon(ask.resource);
  end if;
  select * into l
  from turno.lock t
  where t.resource = ask.resource;
  if not turno.lock_may_share(l, ask.owner, most) then
    return turno.lock_answer_shared(l);
  end if;
  if l.mode = 'exclusive' then
    perform turno.lock_close(l, 'taken_over');
  end if;

  select * into h
  from turno.lock_hold o
  where o.resource = ask.resource
    and o.owner = ask.owner
    and o.holds > 0
    and o.expires_at > clock_timestamp();
  if found and ask.request <> all (h.hold_ids) then
    perform turno.lock_check_holds(h.holds);
    -- A release of it may be under way: what that has ended is not entered again.
    update turno.lock_hold o
    set holds      = o.holds + 1,
        expires_at = greatest(o.expires_at, least(clock_timestamp() + ask.ttl, o.max_until)),
        hold_ids   = o.hold_ids || ask.request
    where o.resource = h.resource
      and o.token = h.token
      and o.holds > 0
      and o.expires_at > clock_timestamp()
    returning * into h;
  end if;
  if found then
    perform turno.lock_gate(ask.resource);
    return row(case when h.hold_ids[1] = ask.request then 'acquired' else 'reentered' end, h.resource, h.owner, h.token,
               h.holds, h.acquired_at, h.expires_at, h.expires_at - clock_timestamp(),
               h."user", h.service, h.description)::turno.lock_outcome;
  end if;

  perform turno.lock_close_holds(ask.resource, 'expired');
  if (select count(*) from turno.lock_hold o where o.resource = ask.resource) >= most then
    perform turno.lock_gate(ask.resource);
    -- A guard keeps a hold whose time is up, and does not notify when it ends.
    return turno.lock_answer_soon(ask.resource);
  end if;
  update turno.lock t
  set token = greatest(t.token + 1, turno.lock_tick()),
      mode  = 'shared'
  where t.resource = ask.resource
  returning * into l;
  insert into turno.lock_hold as o (
    resource, token, owner, holds, acquired_at, expires_at, min_until, max_until,
    "user", service, description, host, pid, hold_ids)
  values (
    ask.resource, l.token, ask.owner, 1, clock_timestamp(),
    clock_timestamp() + least(ask.ttl, ask.max_hold),
    clock_timestamp() + ask.min_hold,
    clock_timestamp() + ask.max_hold,
    ask."user", ask.service, ask.description, ask.host, ask.pid, array[ask.request])
  returning * into h;
  perform turno.lock_gate(ask.resource);
  return row('acquired', h.resource, h.owner, h.token, h.holds, h.acquired_at, h.expires_at,
             h.expires_at - clock_timestamp(), h."user", h.service, h.description)::turno.lock_outcome;
end
$$;

-- The rule itself, as a look that writes nothing.
create or replace function turno.lock_may_share(l turno.lock, owner text, most integer) returns boolean
language plpgsql
as $$
declare
  live integer;
  mine boolean;
begin
  if l.mode = 'exclusive' and l.holds > 0 and l.expires_at > clock_timestamp() then
    return false;
  end if;
  select count(*), coalesce(bool_or(h.owner = lock_may_share.owner), false) into live, mine
  from turno.lock_hold h
  where h.resource = l.resource
    and h.holds > 0
    and h.expires_at > clock_timestamp();
  if mine then
    return true;
  end if;
  return live < most
    and (live > 0 or l.min_until is null or l.min_until <= clock_timestamp())
    and turno.lock_is_next(l, lock_may_share.owner);
end
$$;

-- "Busy" to one who would share: the hold that ends first is the one to wait for. A waiter in line ahead may be in the way
-- instead, and its place may lapse sooner, without a notification.
create or replace function turno.lock_answer_shared(l turno.lock) returns turno.lock_outcome
language plpgsql
as $$
declare
  h    turno.lock_hold;
  look timestamptz;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = l.resource
    and o.expires_at > clock_timestamp()
    and o.holds > 0
    and l.mode = 'shared'
  order by o.expires_at
  limit 1;
  if not found then
    return turno.lock_answer('busy', l);
  end if;
  look := h.expires_at;
  if l.fifo_until > clock_timestamp() then
    select least(look, w.alive_until) into look
    from turno.lock_waiter w
    where w.resource = l.resource
      and w.fifo
      and w.alive_until > clock_timestamp()
    order by w.ticket
    limit 1;
    look := coalesce(look, h.expires_at);
  end if;
  return row('busy', h.resource, h.owner, null, h.holds, h.acquired_at, h.expires_at,
             look - clock_timestamp(), h."user", h.service, h.description)::turno.lock_outcome;
end
$$;

-- Is a shared hold of this resource live? The rule that decides for an exclusive caller; the gate's row is a hint only.
create or replace function turno.lock_is_shared(resource text) returns boolean
language sql
volatile
as $$
  select exists (
    select
    from turno.lock_hold h
    where h.resource = lock_is_shared.resource
      and h.holds > 0
      and h.expires_at > clock_timestamp())
$$;

-- The gate's row, as its live holds would have it.
create or replace function turno.lock_gate_live(l turno.lock) returns turno.lock
language plpgsql
as $$
declare
  live record;
begin
  select
    count(*)::integer as holds,
    max(h.expires_at) as expires_at,
    min(h.acquired_at) as acquired_at,
    (array_agg(h."user" order by h.expires_at desc))[1] as "user",
    (array_agg(h.service order by h.expires_at desc))[1] as service,
    (array_agg(h.description order by h.expires_at desc))[1] as description
  into live
  from turno.lock_hold h
  where h.resource = l.resource
    and h.holds > 0
    and h.expires_at > clock_timestamp();
  l.holds := live.holds;
  if live.holds > 0 then
    l.expires_at := live.expires_at;
    l.acquired_at := live.acquired_at;
    l."user" := live."user";
    l.service := live.service;
    l.description := live.description;
  end if;
  return l;
end
$$;

-- Locks the gate, if that can be had in a few milliseconds.
create or replace function turno.lock_enter_gate(resource text) returns boolean
language plpgsql
as $$
begin
  for tried in 1..8 loop
    perform 1
    from turno.lock t
    where t.resource = lock_enter_gate.resource
    for update skip locked;
    if found then
      return true;
    end if;
    perform pg_sleep(0.001 * tried * (0.5 + random()));
  end loop;
  return false;
end
$$;

-- Closes the holds whose time is up, but for those that a guard keeps; says how many there were. One that
-- was given back while the gate was locked has its history row already.
create or replace function turno.lock_close_holds(resource text, event text) returns bigint
language plpgsql
as $$
declare
  closed bigint;
begin
  with ended as (
    delete from turno.lock_hold h
    where h.resource = lock_close_holds.resource
      and h.token in (
        select o.token
        from turno.lock_hold o
        where o.resource = lock_close_holds.resource
          and (o.expires_at <= clock_timestamp() or o.holds = 0)
        for update skip locked)
    returning h.*)
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
  select
    lock_close_holds.event, e.resource, e.token, 'shared', e.owner, e."user", e.service, e.description,
    e.host, e.pid, e.acquired_at, e.expires_at
  from ended e
  where e.holds > 0;
  get diagnostics closed = row_count;
  return closed;
end
$$;

-- Is every hold over, with nobody's guard on it? The gate's expiry is a hint only: a renewal that found
-- the gate locked has not told it.
create or replace function turno.lock_all_over(resource text) returns boolean
language plpgsql
as $$
declare
  over bigint;
begin
  select count(*) into over
  from (
    select
    from turno.lock_hold o
    where o.resource = lock_all_over.resource
      and (o.expires_at <= clock_timestamp() or o.holds = 0)
    for update skip locked) o;
  return over = (select count(*) from turno.lock_hold o where o.resource = lock_all_over.resource);
end
$$;

-- Makes the lock row tell what its holds tell: how many, and until when.
create or replace function turno.lock_gate(resource text) returns void
language sql
as $$
  update turno.lock t
  set holds      = s.holds,
      expires_at = s.expires_at,
      owner      = '',
      min_until  = greatest(t.min_until, s.min_until),
      max_until  = null,
      "user"     = s."user",
      service    = s.service,
      description = s.description,
      acquired_at = coalesce(s.acquired_at, t.acquired_at),
      hold_ids   = '{}',
      requests   = '{}'
  from (
    select
      count(*)::integer as holds,
      coalesce(max(h.expires_at), 'epoch') as expires_at,
      max(h.min_until) as min_until,
      min(h.acquired_at) as acquired_at,
      (array_agg(h."user" order by h.expires_at desc))[1] as "user",
      (array_agg(h.service order by h.expires_at desc))[1] as service,
      (array_agg(h.description order by h.expires_at desc))[1] as description
    from turno.lock_hold h
    where h.resource = lock_gate.resource
      and h.holds > 0) s
  where t.resource = lock_gate.resource
$$;

-- Function file lock_acquire_wait

-- Purpose: waiting, in SQL. A library waits outside the database, where it can be woken; this is for
--          callers that have SQL only. It holds the caller's connection and snapshot, so it is bounded;
--          and it signs in nowhere, because a row that it wrote would be locked until it is done.
-- Index:   lock_pkey, lock_waiter_pkey.

create or replace function turno.lock_acquire_wait(
  ask  turno.lock_ask,
  wait interval
) returns turno.lock_outcome
language plpgsql
as $$
declare
  got   turno.lock_outcome;
  until timestamptz := clock_timestamp() + wait;
  nap   double precision := 0.02;
begin
  if wait < '0' or wait > '5 minutes' then
    raise exception 'wait is %, and must be between 0 and 5 minutes', wait
      using errcode = 'invalid_parameter_value', hint = 'Wait less in SQL, and call again.';
  end if;
  loop
    if ask.mode = 'exclusive' and ask.permits is null then
      got := turno.lock_take(ask);
    else
      got := turno.lock_share(ask);
    end if;
    exit when got.outcome <> 'busy' or wait is null or clock_timestamp() >= until;
    perform pg_sleep(least(nap, extract(epoch from until - clock_timestamp())));
    nap := least(nap * 1.5, 0.25) * (0.75 + random() / 2);
  end loop;
  return got;
end
$$;

-- Until when a waiter that signs in now counts: ten seconds longer than the holding that it waits for, because it looks again
-- when that ends.
create or replace function turno.lock_waits_until(resource text) returns timestamptz
language sql
stable
as $$
  select greatest(
    clock_timestamp(),
    (select
       case when t.holds > 0 then greatest(t.expires_at, t.min_until) else t.min_until end
     from turno.lock t
     where t.resource = lock_waits_until.resource),
    -- A renewal that found the lock row locked has not changed it.
    (select max(h.expires_at)
     from turno.lock_hold h
     where h.resource = lock_waits_until.resource
       and h.holds > 0)) + '10 seconds'
$$;

-- Signs a waiter in, or says that it is still there: it counts until ten seconds after the end of the holding that it waits
-- for, or after its release (lock_line_soon). The marks on the lock row spare all others a look at the list. False: the row could not be
-- marked just now.
create or replace function turno.lock_wait(
  resource    text,
  owner       text,
  fifo        boolean default false,
  "user"      text    default null,
  service     text    default null,
  description text    default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  alive timestamptz := turno.lock_waits_until(lock_wait.resource);
  fresh timestamptz := case
    when alive > clock_timestamp() + '10 seconds' then alive
    else clock_timestamp() + '6 seconds'
  end;
begin
  perform turno.check_name('resource', lock_wait.resource, 255);
  perform turno.check_name('owner', lock_wait.owner, 255);
  -- Whoever was away for too long has lost its place in line.
  delete from turno.lock_waiter w
  where w.resource = lock_wait.resource
    and w.owner = lock_wait.owner
    and w.alive_until <= clock_timestamp();
  insert into turno.lock_waiter as w (
    resource, owner, fifo, since, alive_until, "user", service, description)
  values (
    lock_wait.resource, lock_wait.owner, lock_wait.fifo, clock_timestamp(), alive,
    lock_wait."user", lock_wait.service, lock_wait.description)
  on conflict (resource, owner) do update
  set alive_until = excluded.alive_until,
      fifo        = excluded.fifo;
  -- Another waiter's mark will do as well, while it is fresh.
  if exists (
    select
    from turno.lock t
    where t.resource = lock_wait.resource
      and t.waited_until >= fresh
      and (not lock_wait.fifo or t.fifo_until >= fresh)) then
    return true;
  end if;
  -- A row that somebody is just changing goes without: waiting for a row lock here could last as long
  -- as a stranger's transaction.
  update turno.lock t
  set waited_until = greatest(t.waited_until, alive),
      fifo_until   = case when lock_wait.fifo then greatest(t.fifo_until, alive) else t.fifo_until end
  where t.resource = (
    select k.resource
    from turno.lock k
    where k.resource = lock_wait.resource
    for no key update skip locked);
  return found;
end
$$;

comment on function turno.lock_wait is
  'Signs a waiter in until ten seconds after the end of the holding that it waits for (false: try again at once, the row was just changing): a release then notifies channel turno_lock, and with fifo no later waiter is served first. Call again when the holding has changed, and lock_leave afterwards.';

-- Signs a waiter out.
create or replace function turno.lock_leave(resource text, owner text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  gone turno.lock_waiter;
  l    turno.lock;
begin
  delete from turno.lock_waiter w
  where w.resource = lock_leave.resource
    and w.owner = lock_leave.owner
  returning * into gone;
  -- The waiter behind may be the next now; it would otherwise sleep on. Among shared holds there may be room beside those
  -- that are held, and the gate does not tell.
  if gone.fifo then
    select * into l
    from turno.lock t
    where t.resource = lock_leave.resource;
    if l.holds = 0 or l.mode = 'shared' then
      perform turno.lock_call(l);
    end if;
  end if;
end
$$;

comment on function turno.lock_leave is 'Signs a waiter out.';

-- Function file lock_acquire_all

-- Purpose: take several resources, all or none, in sorted order, so that two callers who want the same
--          ones cannot wait for each other. Busy on one undoes the others and names that one.
-- Index:   lock_pkey.

create or replace function turno.lock_acquire_all(
  resources   text[],
  owner       text     default null,
  ttl         interval default '30 seconds',
  "user"      text     default null,
  service     text     default null,
  description text     default null,
  min_hold    interval default null,
  max_hold    interval default null,
  host        text     default null,
  pid         integer  default null,
  request     uuid     default null,
  max_ttl     interval default '24 hours'
) returns setof turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  sorted text[];
  name   text;
  l      turno.lock;
  got    turno.lock_outcome;
  all_of turno.lock_outcome[] := '{}';
begin
  sorted := array(select distinct r collate "C" from unnest(resources) r order by 1);
  if cardinality(sorted) not between 1 and 100 then
    raise exception 'resources has % names, and must have 1 to 100', cardinality(sorted)
      using errcode = 'invalid_parameter_value', hint = 'Lock a common parent, such as PRESTAMO instead of each PRESTAMO/n.';
  end if;
  owner := coalesce(owner, gen_random_uuid()::text);

  -- Losing writes nothing: look at all of them before touching one.
  foreach name in array sorted loop
    select * into l
    from turno.lock t
    where t.resource = name;
    continue when l.holds > 0 and l.expires_at > clock_timestamp() and l.owner = owner and l.mode = 'exclusive';
    if (l.mode = 'exclusive' and l.holds > 0 and l.expires_at > clock_timestamp())
       or (l.mode = 'shared' and turno.lock_is_shared(name))
       or l.min_until > clock_timestamp()
       or not turno.lock_is_next(l, owner) then
      return next turno.lock_answer('busy', l);
      return;
    end if;
  end loop;

  begin
    foreach name in array sorted loop
      got := turno.lock_acquire(
        resource => name, owner => owner, ttl => ttl, "user" => "user", service => service,
        description => description, min_hold => min_hold, max_hold => max_hold, host => host,
        pid => pid, request => request, max_ttl => max_ttl);
      if got.outcome = 'busy' then
        raise exception 'busy' using errcode = 'TN409';
      end if;
      all_of := all_of || got;
    end loop;
  exception when sqlstate 'TN409' then
    return next got;
    return;
  end;
  return query select * from unnest(all_of);
end
$$;

comment on function turno.lock_acquire_all is
  'Takes several resources, all or none, in sorted order: one row for each, or a single row with outcome busy.';

-- Function file lock_renew

-- Purpose: lengthen a lease. It never inserts, never steals and never shortens. One that comes after
--          the expiry, but before anybody else took the lock, is accepted (the token is still the
--          newest) and recorded as renewed_late; max_hold is never passed.
-- Index:   lock_pkey, lock_hold_pkey.

create or replace function turno.lock_renew(
  resource text,
  token    bigint,
  ttl      interval default '30 seconds',
  max_ttl  interval default '24 hours'
) returns turno.lock_renewal
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  got turno.lock_renewal;
  l   turno.lock;
begin
  if not coalesce(lock_renew.ttl between '1 millisecond' and lock_renew.max_ttl, false) then
    perform turno.lock_check(
      row(lock_renew.resource, 'renew', lock_renew.ttl, null, null, null, 'exclusive', null, null, null,
          null, null, null, lock_renew.max_ttl)::turno.lock_ask);
  end if;

  update turno.lock t
  set expires_at = greatest(t.expires_at, least(clock_timestamp() + lock_renew.ttl, t.max_until))
  where t.resource = lock_renew.resource
    and t.token = lock_renew.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and t.expires_at > clock_timestamp()
  returning 'renewed', t.expires_at, t.expires_at - clock_timestamp() into got;
  if found then
    return got;
  end if;

  -- A stale token is told so without a touch of the row: a zombie must not disturb the holder.
  select * into l
  from turno.lock t
  where t.resource = lock_renew.resource;
  if l.mode is distinct from 'shared' and l.token is distinct from lock_renew.token then
    perform turno.lock_late(lock_renew.resource, lock_renew.token, 'renew');
    return row('lost', null, null)::turno.lock_renewal;
  end if;
  if l.mode = 'shared' then
    return turno.lock_renew_shared(l, lock_renew.token, lock_renew.ttl);
  end if;
  -- Expired: the row is locked, and the rest is decided in peace.
  select * into l
  from turno.lock t
  where t.resource = lock_renew.resource
  for update;
  if l.token = lock_renew.token and l.holds > 0 and (l.max_until is null or l.max_until > clock_timestamp()) then
    if l.expires_at <= clock_timestamp() then
      insert into turno.lock_history (
        event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
      values (
        'renewed_late', l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description, l.host,
        l.pid, l.acquired_at, l.expires_at);
    end if;
    update turno.lock t
    set expires_at = greatest(t.expires_at, least(clock_timestamp() + lock_renew.ttl, t.max_until))
    where t.resource = lock_renew.resource
    returning 'renewed', t.expires_at, t.expires_at - clock_timestamp() into got;
    return got;
  end if;
  perform turno.lock_late(lock_renew.resource, lock_renew.token, 'renew');
  return row('lost', null, null)::turno.lock_renewal;
end
$$;

comment on function turno.lock_renew is
  'Lengthens a lease to ttl from now: renewed, or lost if the token is no longer the holder''s.';

create or replace function turno.lock_renew_shared(
  l     turno.lock,
  token bigint,
  ttl   interval
) returns turno.lock_renewal
language plpgsql
as $$
#variable_conflict use_column
declare
  h turno.lock_hold;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = l.resource
    and o.token = lock_renew_shared.token
    and o.holds > 0
    and (o.max_until is null or o.max_until > clock_timestamp())
  for update;
  if not found then
    perform turno.lock_late(l.resource, lock_renew_shared.token, 'renew');
    return row('lost', null, null)::turno.lock_renewal;
  end if;
  if h.expires_at <= clock_timestamp() then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at)
    values (
      'renewed_late', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host,
      h.pid, h.acquired_at, h.expires_at);
  end if;
  update turno.lock_hold o
  set expires_at = greatest(o.expires_at, least(clock_timestamp() + lock_renew_shared.ttl, o.max_until))
  where o.resource = h.resource
    and o.token = h.token
  returning * into h;
  -- The gate is told if it is free just now; whoever would take over looks at the holds themselves.
  update turno.lock t
  set expires_at = greatest(t.expires_at, h.expires_at)
  where t.resource = (
    select k.resource
    from turno.lock k
    where k.resource = h.resource
      and k.mode = 'shared'
    for update skip locked);
  return row('renewed', h.expires_at, h.expires_at - clock_timestamp())::turno.lock_renewal;
end
$$;

-- Function file lock_release

-- Purpose: give back one hold; the last one ends the lease and writes its history row.
-- Index:   lock_pkey, lock_hold_pkey.
--
-- A caller that knows which hold it gives back names it, by the request that took it: then a release
-- that is sent again can never give back another's. Otherwise the newest goes, and the request itself
-- is remembered for a while.

create or replace function turno.lock_release(
  resource text,
  token    bigint,
  hold     uuid default null,
  request  uuid default null
) returns turno.lock_ending
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  l turno.lock;
begin
  update turno.lock t
  set holds    = t.holds - 1,
      hold_ids = case
        when lock_release.hold is null then t.hold_ids[:t.holds - 1]
        else array_remove(t.hold_ids, lock_release.hold)
      end,
      requests = case
        when lock_release.hold is null then turno.lock_remember(t.requests, lock_release.request)
        else t.requests
      end
  where t.resource = lock_release.resource
    and t.token = lock_release.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and case
      when lock_release.hold is not null then lock_release.hold = any (t.hold_ids)
      else lock_release.request is null or lock_release.request <> all (t.requests)
    end
  returning * into l;

  if not found then
    select * into l
    from turno.lock t
    where t.resource = lock_release.resource;
    if l.mode = 'shared' then
      return turno.lock_release_shared(
        lock_release.resource, lock_release.token, lock_release.hold, lock_release.request);
    end if;
    -- The same release again, because its answer was lost: it has been done.
    if l.token = lock_release.token and l.holds > 0 then
      return row('released', l.holds)::turno.lock_ending;
    end if;
    if turno.lock_was_ended(lock_release.resource, lock_release.token, lock_release.request, lock_release.hold) then
      return row('released', 0)::turno.lock_ending;
    end if;
    perform turno.lock_late(lock_release.resource, lock_release.token, 'release');
    return row('lost', 0)::turno.lock_ending;
  end if;

  if l.holds = 0 then
    insert into turno.lock_history (
      event, resource, token, mode, owner, "user", service, description, host, pid,
      acquired_at, expires_at, reason, request)
    values (
      'released', l.resource, l.token, l.mode, l.owner, l."user", l.service, l.description, l.host, l.pid,
      l.acquired_at, l.expires_at, case when l.expires_at <= clock_timestamp() then 'after its expiry' end,
      lock_release.request);
    if l.waited_until is not null then
      perform turno.lock_call(l);
    end if;
  end if;
  return row('released', l.holds)::turno.lock_ending;
end
$$;

comment on function turno.lock_release is
  'Gives back one hold: released (holds tells how many the owner still has), or lost if the token is no longer the holder''s.';

create or replace function turno.lock_release_shared(
  resource text,
  token    bigint,
  hold     uuid,
  request  uuid
) returns turno.lock_ending
language plpgsql
as $$
#variable_conflict use_column
declare
  l turno.lock;
  h turno.lock_hold;
begin
  select * into h
  from turno.lock_hold o
  where o.resource = lock_release_shared.resource
    and o.token = lock_release_shared.token
    and o.holds > 0
  for update;
  if not found then
    if turno.lock_was_ended(
        lock_release_shared.resource, lock_release_shared.token, lock_release_shared.request,
        lock_release_shared.hold) then
      return row('released', 0)::turno.lock_ending;
    end if;
    perform turno.lock_late(lock_release_shared.resource, lock_release_shared.token, 'release');
    return row('lost', 0)::turno.lock_ending;
  end if;
  if lock_release_shared.hold <> all (h.hold_ids)
     or (lock_release_shared.hold is null and lock_release_shared.request = any (h.requests)) then
    return row('released', h.holds)::turno.lock_ending;
  end if;
  if h.holds > 1 then
    update turno.lock_hold o
    set holds    = o.holds - 1,
        hold_ids = case
          when lock_release_shared.hold is null then o.hold_ids[:o.holds - 1]
          else array_remove(o.hold_ids, lock_release_shared.hold)
        end,
        requests = case
          when lock_release_shared.hold is null then turno.lock_remember(o.requests, lock_release_shared.request)
          else o.requests
        end
    where o.resource = h.resource
      and o.token = h.token
    returning * into h;
    return row('released', h.holds)::turno.lock_ending;
  end if;
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, reason, request)
  values (
    'released', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, case when h.expires_at <= clock_timestamp() then 'after its expiry' end,
    lock_release_shared.request);
  -- Given back here and now, whatever the gate says: a caller that would take the lock looks at the holds. The hold leaves
  -- the gate's count when the gate is free, at the latest with the next caller that enters.
  update turno.lock_hold o
  set holds      = 0,
      expires_at = 'epoch'
  where o.resource = h.resource
    and o.token = h.token;
  select * into l
  from turno.lock t
  where t.resource = h.resource
  for update skip locked;
  if found then
    update turno.lock t
    set min_until = greatest(t.min_until, h.min_until)
    where t.resource = h.resource;
    perform turno.lock_gate(h.resource);
    -- After the count: what is released between the two stays in the count, and a row that is in it is removed later.
    delete from turno.lock_hold o
    where o.resource = h.resource
      and o.holds = 0;
    perform turno.lock_call(l);
  else
    -- Whether a waiter has just marked the row cannot be known here, and it may not look again for a long time.
    perform pg_notify('turno_lock', h.resource);
    perform turno.lock_line_soon(h.resource);
  end if;
  return row('released', 0)::turno.lock_ending;
end
$$;

-- Function file lock_batch

-- Purpose: what arrived together, done together: one round trip, one commit and a statement or two for many
--          callers of one process. Each has an outcome of its own; place says whose, counted from one.
-- Index:   lock_pkey; other plans are ruled out, because an unanalysed table would invite them. Where one of those cannot be
--          avoided it looks so dear that it would be compiled, which takes far longer than to run it: so not that either.
--
-- The usual ones are done as a set; whatever is left over is done one by one. No caller may have to wait
-- for another's row lock: rows are locked with `skip locked`, and what would have to wait (a re-entry or a
-- release beside an open guard) or is shared is answered "later", and is asked again alone.

create or replace function turno.lock_acquire_batch(
  resources    text[],
  owners       text[],
  ttls         interval[],
  users        text[],
  services     text[],
  descriptions text[],
  hosts        text[],
  pids         integer[],
  requests     uuid[]
) returns table (place bigint, answer turno.lock_outcome)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  done  boolean[] := array_fill(false, array[cardinality(resources)]);
  told  record;
  floor bigint;
  tick  bigint  := turno.lock_tick();
  -- Whether all are what lock_is_plain asks of one, but for their length: looked at together, all cost what one does.
  plain boolean := concat_ws('-',
      array_to_string(owners, '-'), array_to_string(users, '-'), array_to_string(services, '-'),
      array_to_string(descriptions, '-'), array_to_string(hosts, '-')) !~ '[[:cntrl:]]'
    and array_position(owners, '') is null
    and array_position(owners, null) is null
    and array_position(users, '') is null
    and array_position(services, '') is null
    and array_position(descriptions, '') is null
    and array_position(hosts, '') is null;
begin
  -- Free ones, the first caller of each; plain arguments only, as in lock_acquire.
  for told in
    with asked as (
      select distinct on (a.resource) a.*
      from unnest(resources, owners, ttls, users, services, descriptions, hosts, pids, requests)
        with ordinality a(resource, owner, ttl, "user", service, description, host, pid, request, place)
      where a.ttl >= '1 millisecond'
        and a.request is not null
        and octet_length(concat(a.owner, a."user", a.service, a.description, a.host)) < 250
        and (plain or turno.lock_is_plain(a.owner, a."user", a.service, a.description, a.host))
      order by a.resource, a.place),
    free as materialized (
      select a.*
      from asked a
      join turno.lock k on k.resource = a.resource
      where turno.lock_is_free(k)
      for update of k skip locked)
    update turno.lock t
    set token       = greatest(t.token + 1, tick),
        mode        = 'exclusive',
        owner       = f.owner,
        holds       = 1,
        acquired_at = clock_timestamp(),
        expires_at  = clock_timestamp() + f.ttl,
        min_until   = null,
        max_until   = null,
        "user"      = f."user",
        service     = f.service,
        description = f.description,
        host        = f.host,
        pid         = f.pid,
        hold_ids    = array[f.request],
        requests    = '{}'
    from free f
    where t.resource = f.resource
    returning f.place, row(
      'acquired', t.resource, t.owner, t.token, t.holds, t.acquired_at, t.expires_at,
      t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome as answer
  loop
    done[told.place] := true;
    place := told.place;
    answer := told.answer;
    return next;
  end loop;

  -- New ones, as lock_create makes them: an insert may not wait for another's, and the floor is read after it.
  if not (true = all (done)) then
    for told in
      with asked as (
        select distinct on (a.resource) a.*
        from unnest(resources, owners, ttls, users, services, descriptions, hosts, pids, requests, done)
          with ordinality a(resource, owner, ttl, "user", service, description, host, pid, request, done, place)
        where not a.done
          and a.ttl >= '1 millisecond'
          and a.request is not null
          and octet_length(a.resource) between 1 and 255
          and a.resource !~ '[[:cntrl:]]'
          and turno.lock_is_plain(a.owner, a."user", a.service, a.description, a.host)
        order by a.resource, a.place),
      absent as materialized (
        select a.*
        from asked a
        left join turno.lock k on k.resource = a.resource
        where k.resource is null),
      made as (
        insert into turno.lock as t (
          resource, token, mode, owner, holds, acquired_at, expires_at,
          "user", service, description, host, pid, hold_ids)
        select
          a.resource, turno.lock_tick(), 'exclusive', a.owner, 1, clock_timestamp(), clock_timestamp() + a.ttl,
          a."user", a.service, a.description, a.host, a.pid, array[a.request]
        from absent a
        where turno.lock_may_create(a.resource)
        on conflict do nothing
        returning t.*)
      select a.place, row(
        'acquired', m.resource, m.owner, m.token, m.holds, m.acquired_at, m.expires_at,
        m.expires_at - clock_timestamp(), m."user", m.service, m.description)::turno.lock_outcome as answer
      from made m
      join absent a on a.resource = m.resource
    loop
      floor := coalesce(floor, (select f.token from turno.lock_floor f));
      done[told.place] := true;
      place := told.place;
      answer := told.answer;
      if answer.token <= floor then
        answer.token := turno.lock_above_floor(answer.resource, answer.token);
      end if;
      return next;
    end loop;
  end if;

  -- Held ones: the others are told by whom.
  if not (true = all (done)) then
    for told in
      select
        a.place,
        case
          when t.mode = 'shared' then turno.lock_answer('busy', t)
          else row(
            'busy', t.resource, t.owner, null, t.holds, t.acquired_at, t.expires_at,
            t.expires_at - clock_timestamp(), t."user", t.service, t.description)::turno.lock_outcome
        end as answer
      from unnest(resources, owners) with ordinality a(resource, owner, place)
      join turno.lock t on t.resource = a.resource
      where case
        when t.mode = 'shared' then turno.lock_is_shared(t.resource)
        else t.holds > 0 and t.expires_at > clock_timestamp() and t.owner <> a.owner
      end
    loop
      done[told.place] := true;
      place := told.place;
      answer := told.answer;
      return next;
    end loop;
  end if;

  for i in 1..cardinality(resources) loop
    continue when done[i];
    place := i;
    -- A batch must not wait: a re-entry beside an open guard of its own waits for that guard's transaction, and the gate of
    -- shared holds is tried for some milliseconds while it is locked.
    perform 1
    from turno.lock t
    where t.resource = resources[i]
      and ((t.owner = owners[i] and t.holds > 0) or t.mode = 'shared');
    if found then
      perform 1
      from turno.lock t
      where t.resource = resources[i]
        and t.mode = 'exclusive'
      for no key update skip locked;
      if not found then
        answer := row('later', resources[i], null, null, null, null, null, null, null, null, null)::turno.lock_outcome;
        return next;
        continue;
      end if;
    end if;
    answer := turno.lock_acquire(
      resource => resources[i], owner => owners[i], ttl => ttls[i], "user" => users[i],
      service => services[i], description => descriptions[i], host => hosts[i], pid => pids[i],
      request => requests[i], max_ttl => greatest(ttls[i], '24 hours'));
    return next;
  end loop;
end
$$;

comment on function turno.lock_acquire_batch is
  'Many exclusive acquires at once, each with an answer of its own; outcome later: ask that one alone.';

create or replace function turno.lock_release_batch(
  resources text[],
  tokens    bigint[],
  holds     uuid[],
  requests  uuid[]
) returns table (place bigint, answer turno.lock_ending)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  done boolean[] := array_fill(false, array[cardinality(lock_release_batch.resources)]);
  over record;
begin
  -- The last hold of a lease: the usual release.
  for over in
    with asked as (
      select distinct on (a.resource) a.*
      from unnest(
        lock_release_batch.resources, lock_release_batch.tokens, lock_release_batch.holds,
        lock_release_batch.requests) with ordinality a(resource, token, hold, request, place)
      order by a.resource, a.place),
    last_hold as materialized (
      select a.*
      from asked a
      join turno.lock k on k.resource = a.resource
      where k.token = a.token
        and k.mode = 'exclusive'
        and k.holds = 1
        and (a.hold = any (k.hold_ids) or (a.hold is null and a.request <> all (k.requests)))
      for no key update of k skip locked),
    freed as (
      update turno.lock t
      set holds    = 0,
          hold_ids = '{}'
      from last_hold l
      where t.resource = l.resource
      returning t.*, l.place, coalesce(l.hold, l.request) as request),
    history as (
      insert into turno.lock_history (
        event, resource, token, mode, owner, "user", service, description, host, pid,
        acquired_at, expires_at, reason, request)
      select
        'released', f.resource, f.token, f.mode, f.owner, f."user", f.service, f.description, f.host, f.pid,
        f.acquired_at, f.expires_at, case when f.expires_at <= clock_timestamp() then 'after its expiry' end,
        f.request
      from freed f)
    select f.place, f.resource, f.waited_until, f.fifo_until
    from freed f
  loop
    done[over.place] := true;
    place := over.place;
    answer := row('released', 0)::turno.lock_ending;
    if over.waited_until > clock_timestamp() then
      perform pg_notify('turno_lock', over.resource);
    end if;
    if over.fifo_until > clock_timestamp() + '10 seconds' then
      perform turno.lock_line_soon(over.resource);
    end if;
    return next;
  end loop;

  for i in 1..cardinality(lock_release_batch.resources) loop
    continue when done[i];
    place := i;
    perform 1
    from turno.lock t
    where t.resource = lock_release_batch.resources[i]
      and t.mode = 'exclusive'
    for no key update skip locked;
    if found then
      answer := turno.lock_release(
        lock_release_batch.resources[i], lock_release_batch.tokens[i], lock_release_batch.holds[i],
        lock_release_batch.requests[i]);
    else
      answer := row('later', null)::turno.lock_ending;
    end if;
    return next;
  end loop;
end
$$;

comment on function turno.lock_release_batch is
  'Many releases at once, each with an answer of its own; outcome later: ask that one alone.';

create or replace function turno.lock_renew_batch(
  resources text[],
  tokens    bigint[],
  ttls      interval[]
) returns table (place bigint, answer turno.lock_renewal)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  -- Live exclusive leases: the usual renewal. Whatever else it is (shared, late, stale, beside an open guard, a second
  -- one of the same lease) has no answer here, and is asked alone.
  return query
  with asked as (
    select distinct on (a.resource) a.*
    from unnest(lock_renew_batch.resources, lock_renew_batch.tokens, lock_renew_batch.ttls)
      with ordinality a(resource, token, ttl, place)
    where a.ttl >= '1 millisecond'
    order by a.resource, a.place),
  live as materialized (
    select a.*
    from asked a
    join turno.lock k on k.resource = a.resource
    where k.token = a.token
      and k.mode = 'exclusive'
      and k.holds > 0
      and k.expires_at > clock_timestamp()
    for no key update of k skip locked)
  update turno.lock t
  set expires_at = greatest(t.expires_at, least(clock_timestamp() + l.ttl, t.max_until))
  from live l
  where t.resource = l.resource
  returning l.place, row('renewed', t.expires_at, t.expires_at - clock_timestamp())::turno.lock_renewal;
end
$$;

comment on function turno.lock_renew_batch is
  'Many renewals at once, each with an answer of its own; whoever has none asks alone.';

-- Function file lock_guard

-- Purpose: fencing, enforced: inside the caller's transaction, as its last statement. It fails if the
--          token is stale, and otherwise keeps everybody from taking the lock over until that
--          transaction has ended, even past the expiry.
-- Index:   lock_pkey, lock_hold_pkey.
-- The row lock is shared, so that several guarded transactions of one holder do not wait for each other.

create or replace function turno.lock_guard(resource text, token bigint) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  perform 1
  from turno.lock t
  where t.resource = lock_guard.resource
    and t.token = lock_guard.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and t.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  -- A shared hold: its own row is kept, and nobody may end it then. The gate stays free for the others.
  perform 1
  from turno.lock_hold h
  where h.resource = lock_guard.resource
    and h.token = lock_guard.token
    and h.holds > 0
    and h.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  raise exception 'the lease on % with token % is lost', lock_guard.resource, lock_guard.token
    using errcode = 'TN410', hint = 'Roll back: another holder may have the lock. Acquire it again and repeat the work.';
end
$$;

comment on function turno.lock_guard is
  'In the caller''s transaction, as its last statement: raises TN410 if the token is stale; otherwise nobody can take the lock over until that transaction ends.';

-- Function file lock_break

-- Purpose: a person forces a lock open, naming the token that is broken and why.
-- Index:   lock_pkey, lock_hold_pkey.

create or replace function turno.lock_break(
  resource text,
  token    bigint,
  reason   text,
  "user"   text default null,
  request  uuid default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  l turno.lock;
  h turno.lock_hold;
begin
  perform turno.check_name('reason', lock_break.reason, 1000);
  if lock_break."user" is not null then
    perform turno.check_name('user', lock_break."user", 255);
  end if;

  select * into l
  from turno.lock t
  where t.resource = lock_break.resource;
  if turno.lock_was_ended(lock_break.resource, lock_break.token, lock_break.request) then
    return 'broken';
  end if;
  if l.resource is null then
    return 'not_held';
  end if;
  select * into l
  from turno.lock t
  where t.resource = lock_break.resource
  for update;

  if l.mode = 'exclusive' then
    if l.token <> lock_break.token or l.holds = 0 then
      return 'not_held';
    end if;
    perform turno.lock_close(l, 'broken', lock_break."user", lock_break.reason, lock_break.request);
    update turno.lock t
    set holds     = 0,
        min_until = null
    where t.resource = lock_break.resource;
    perform turno.lock_call(l);
    return 'broken';
  end if;

  delete from turno.lock_hold o
  where o.resource = lock_break.resource
    and o.token = lock_break.token
    and o.holds > 0
  returning * into h;
  if not found then
    return 'not_held';
  end if;
  insert into turno.lock_history (
    event, resource, token, mode, owner, "user", service, description, host, pid,
    acquired_at, expires_at, actor, reason, request)
  values (
    'broken', h.resource, h.token, 'shared', h.owner, h."user", h.service, h.description, h.host, h.pid,
    h.acquired_at, h.expires_at, lock_break."user", lock_break.reason, lock_break.request);
  -- Broken means free now: its min_hold goes with it; lock_gate puts back that of the others.
  update turno.lock t
  set min_until = null
  where t.resource = lock_break.resource;
  perform turno.lock_gate(lock_break.resource);
  perform turno.lock_call(l);
  return 'broken';
end
$$;

comment on function turno.lock_break is
  'Forces a lock open: broken, or not_held if the token is not the holder''s. The reason and the user go into the history.';

-- Function file lock_status

-- Purpose: who holds what. lock_status answers for one resource: one row a holder, or one row with
--          locked = false. lock_list answers for all that are held and begin with a prefix.
-- Index:   lock_pkey (a range of it, for the prefix), lock_hold_pkey, lock_waiter_pkey.

create or replace function turno.lock_status(resource text) returns setof turno.lock_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select * from turno.lock_holders h where h.resource = lock_status.resource;
  if not found then
    return next row(
      lock_status.resource, false, null, null, null, 0, null, null, null, null, null, null, null, null,
      (select count(*) from turno.lock_waiter w
       where w.resource = lock_status.resource and w.alive_until > clock_timestamp()))::turno.lock_info;
  end if;
end
$$;

comment on function turno.lock_status is
  'Who holds a resource: a row for each holder, or one row with locked = false.';

create or replace function turno.lock_list(
  prefix text    default '',
  after  text    default '',
  "limit" integer default 100
) returns setof turno.lock_info
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  -- A page is so many resources, each with all of its holders.
  select h.*
  from (
    select distinct o.resource
    from turno.lock_holders o
    where o.resource > after
      and o.resource >= prefix
      and starts_with(o.resource, prefix)
    order by o.resource
    limit least(greatest("limit", 1), 1000)) page
  join turno.lock_holders h on h.resource = page.resource
  order by h.resource, h.token
$$;

comment on function turno.lock_list is
  'The locks that are held now and begin with a prefix, in order; after is the last resource of the page before.';

-- Function file lock_history

-- Purpose: the audit trail, newest first: one entry a holding that has ended, one a late arrival.
-- Index:   lock_history_resource, or lock_history_pkey when no resource is named.

create or replace function turno.lock_history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default ''
) returns setof turno.lock_history
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if lock_history.resource is not null then
    return query
      select h.*
      from turno.lock_history h
      where h.resource = lock_history.resource
        and h.id < coalesce(lock_history.before, 9223372036854775807)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  else
    return query
      select h.*
      from turno.lock_history h
      where h.id < coalesce(lock_history.before, 9223372036854775807)
        and starts_with(h.resource, lock_history.prefix)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  end if;
end
$$;

comment on function turno.lock_history is
  'The audit trail, newest first, of one resource or of all that begin with a prefix; before is the last id of the page before.';

-- Function file deed

-- Purpose: what people do by hand is written down, with who and why, in the transaction in which it is done. Not for callers.
-- Index:   none.

create or replace function turno.deed_check("user" text, reason text) returns void
language plpgsql
immutable
as $$
begin
  if "user" is not null then
    perform turno.check_name('user', "user", 255);
  end if;
  if reason is not null then
    perform turno.check_name('reason', reason, 1000);
  end if;
end
$$;

-- What changed nothing leaves nothing. The number is of those that locks have, so that one id orders them all.
create or replace function turno.deed_record(
  part     text,
  event    text,
  resource text,
  many     bigint,
  actor    text,
  reason   text
) returns void
language sql
as $$
  insert into turno.deed (id, at, part, event, resource, count, actor, reason)
  select
    nextval('turno.lock_history_id_seq'), clock_timestamp(), deed_record.part, deed_record.event,
    deed_record.resource, deed_record.many, deed_record.actor, deed_record.reason
  where deed_record.many > 0
$$;

-- Function file history

-- Purpose: the whole audit trail, newest first: how holdings ended, and what people did by hand.
-- Index:   those of lock_history; deed_resource, or deed_pkey when no resource is named.

create or replace function turno.history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default '',
  part     text    default null
) returns setof turno.history_entry
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  page integer := least(greatest(history."limit", 1), 1000);
  last bigint  := coalesce(history.before, 9223372036854775807);
begin
  if history.part is not null and history.part not in ('lock', 'inbox', 'outbox', 'once') then
    raise exception 'part is %, and must be lock, inbox, outbox or once', quote_literal(history.part)
      using errcode = 'invalid_parameter_value', hint = 'Leave part out for all of them.';
  end if;
  return query
    with locks as (
      select
        h.id, h.at, 'lock'::text, h.event, h.resource::text, null::bigint, h.token, h.mode, h.owner, h."user", h.service,
        h.description, h.host, h.pid, h.acquired_at, h.expires_at, h.actor, h.reason
      from turno.lock_history(history.resource, last, page, history.prefix) h
      where history.part is null
         or history.part = 'lock'),
    named as (
      select d.*
      from turno.deed d
      where d.resource = history.resource
        and d.id < last
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    begun as (
      select d.*
      from turno.deed d
      where history.resource is null
        and d.id < last
        and starts_with(d.resource, history.prefix)
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    deeds as (
      select
        d.id, d.at, d.part, d.event, d.resource::text, d.count, null::bigint, null::text, null::text, null::text, null::text,
        null::text, null::text, null::integer, null::timestamptz, null::timestamptz, d.actor, d.reason
      from (select * from named union all select * from begun) d)
    select *
    from (select * from locks union all select * from deeds) e
    order by 1 desc
    limit page;
end
$$;

comment on function turno.history is
  'The audit trail, newest first: how holdings of locks ended, and what people did by hand to queues, events and once keys, with who and why. Of one resource, of all that begin with a prefix, or of one part: lock, inbox, outbox, once. The outbox has no name: its resource is empty. before is the last id of the page before.';

-- Function file inbox_queue

-- Purpose: queues by name, and what their arguments may be.
-- Index:   inbox_queue_name_key, inbox_cursor_pkey.

-- A queue is made by the first push to it. Whoever waits here waits once in the queue's life.
create or replace function turno.inbox_queue_made(name text) returns turno.inbox_queue
language plpgsql
as $$
#variable_conflict use_column
declare
  q turno.inbox_queue;
begin
  insert into turno.inbox_queue (name)
  values (inbox_queue_made.name)
  on conflict do nothing
  returning * into q;
  if not found then
    select * into strict q
    from turno.inbox_queue t
    where t.name = inbox_queue_made.name;
    return q;
  end if;
  insert into turno.inbox_total (queue_id)
  values (q.id);
  insert into turno.inbox_cursor (
    queue_id, n, at_id, floor_id, floor_n, late_at, late_cost, due_from, due_at, expiry)
  values (
    q.id, 0, '{0,0,0,0}', '{0,0,0,0}', 0, clock_timestamp(), '0', '-infinity', clock_timestamp(), 'infinity');
  return q;
end
$$;

create or replace function turno.inbox_queue_id(name text) returns integer
language sql
stable
as $$
  select q.id
  from turno.inbox_queue q
  where q.name = inbox_queue_id.name
$$;

-- Notifies the idle workers of a queue, if there are any: a notification costs every commit of the database a little.
--
-- The transaction has its id before the mark is read. So a worker that has marked the queue knows when every transaction
-- that may have missed the mark has ended (inbox_idle). A transaction whose snapshot is older than its id cannot see a newer
-- mark, and notifies in any case.
create or replace function turno.inbox_notify(queue text) returns void
language plpgsql
as $$
begin
  perform pg_current_xact_id();
  if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
    perform
    from turno.inbox_listener l
    where l.queue = inbox_notify.queue
      and l.until > clock_timestamp();
    if not found then
      return;
    end if;
  end if;
  perform pg_notify('turno_inbox', inbox_notify.queue);
end
$$;

-- The same for a queue by its number.
create or replace function turno.inbox_call(queue_id integer) returns void
language plpgsql
as $$
declare
  queue text;
begin
  select q.name into queue
  from turno.inbox_queue q
  where q.id = inbox_call.queue_id;
  if found then
    perform turno.inbox_notify(queue);
  end if;
end
$$;

-- When to look again although no notification came: the next item's time, the end of another worker's claim, or what the
-- last claim left out. "looked" is how long ago the caller's last claim began: a claim that came too soon after another one
-- has not looked for items that were committed late (inbox_late). Null: no time is known.
create or replace function turno.inbox_next_due(queue text, looked interval) returns interval
language plpgsql
as $$
#variable_conflict use_column
declare
  q    integer := turno.inbox_queue_id(inbox_next_due.queue);
  c    turno.inbox_cursor;
  next timestamptz;
begin
  if q is null then
    return null;
  end if;
  -- More of them than one claim reads.
  if exists (select from turno.inbox_freed f where f.queue_id = q) then
    return '0';
  end if;
  select * into c
  from turno.inbox_cursor t
  where t.queue_id = q
  order by t.n desc
  limit 1;
  -- A claim that has reached its limit in bytes has left something in line.
  if exists (
    select from generate_series(0, 3) p
    cross join lateral (
      select from turno.inbox_item t
      where t.lane = q * 4 + p
        and t.id > c.at_id[p + 1]
        and t.run_at is null
      limit 1) i) then
    return '0';
  end if;
  select least(c.expiry, min(d.run_at)) into next
  from generate_series(0, 3) p
  cross join lateral (
    select t.run_at
    from turno.inbox_item t
    where t.lane = q * 4 + p
      and t.run_at is not null
    order by t.run_at
    limit 1) d;
  if c.floor_id <> c.at_id and c.late_at < clock_timestamp() - inbox_next_due.looked then
    next := least(next, c.late_at + 10 * c.late_cost);
  end if;
  return case when next < 'infinity' then greatest(next - clock_timestamp(), '0') end;
end
$$;

-- Says that a worker has nothing to do, and listens for as long as "listens"; 0 if it cannot listen. Answers when to look
-- again although no notification came (due), and since when every push notifies (sure).
--
-- A push that was under way when the queue was marked has perhaps not seen the mark. It has a transaction id below "since",
-- which is assigned after the mark was committed. When all of those have ended, "sure" is answered; a worker that looks once
-- more after that may sleep until it is notified. The same "sure" again means that the mark was there all the time.
create or replace function turno.inbox_idle(
  queue   text,
  listens interval default '5 seconds',
  looked  interval default '0',
  out due  interval,
  out sure text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  mark turno.inbox_listener;
begin
  perform turno.check_name('queue', inbox_idle.queue, 255);
  if inbox_idle.listens > '0' then
    select * into mark
    from turno.inbox_listener l
    where l.queue = inbox_idle.queue;
    if mark.until > clock_timestamp() then
      if mark.since is null or mark.until < clock_timestamp() + inbox_idle.listens then
        update turno.inbox_listener l
        set until = greatest(l.until, clock_timestamp() + 2 * inbox_idle.listens),
            since = coalesce(l.since, pg_current_xact_id())
        where l.queue = inbox_idle.queue
          -- One that was made anew meanwhile has a beginning of its own.
          and l.until >= mark.until
          and l.since is not distinct from mark.since;
        if not found then
          due := '0';
          return;
        end if;
      end if;
      if pg_snapshot_xmin(pg_current_snapshot()) >= mark.since then
        sure := mark.since::text;
      end if;
    else
      insert into turno.inbox_listener as l (queue, until)
      values (inbox_idle.queue, clock_timestamp() + 2 * inbox_idle.listens)
      on conflict (queue) do update
      set until = excluded.until,
          since = null
      where l.until <= clock_timestamp();
      due := '0';
      return;
    end if;
  end if;
  due := turno.inbox_next_due(inbox_idle.queue, inbox_idle.looked);
end
$$;

comment on function turno.inbox_idle is
  'Says that a worker listens to turno_inbox for as long as listens. Answers due: when to look again although no notification came; and sure: when it is not null and the same as in the last answer, a push to the queue is certain to notify.';

-- Asks who still listens: notifies all idle workers of a queue, and ends their marks soon. Those that still have nothing to
-- do mark the queue again; a worker that is gone does not, and so it costs no more notifications.
create or replace function turno.inbox_rouse(queue text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update turno.inbox_listener l
  set until = clock_timestamp() + '10 seconds'
  where l.queue = inbox_rouse.queue
    and l.until > clock_timestamp() + '20 seconds';
  if found then
    perform pg_notify('turno_inbox', inbox_rouse.queue);
  end if;
end
$$;

comment on function turno.inbox_rouse is
  'Wakes the idle workers of a queue that has more than its busy workers can take, and forgets those that are gone.';

-- As programs before version 9 of the schema ask, every few seconds.
create or replace function turno.inbox_wait(queue text) returns interval
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select least(i.due, case when i.sure is null then interval '100 milliseconds' end)
  from turno.inbox_idle(inbox_wait.queue, '5 seconds', '1 second') i
$$;

comment on function turno.inbox_wait is
  'Says that a worker listens to turno_inbox: for ten seconds, a push to the queue notifies it. Answers when to look again at the latest. Use inbox_idle.';

create or replace function turno.check_lease(lease interval) returns void
language plpgsql
immutable
as $$
begin
  if lease is null or lease < '1 millisecond' or lease > '1 day' then
    raise exception 'lease is %, and must be between 1 ms and 1 day', coalesce(lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two extensions, such as 30 seconds.';
  end if;
end
$$;

-- What was answered to the same request before; null if it is new.
create or replace function turno.inbox_answered(request uuid) returns jsonb
language sql
stable
as $$
  select r.answer
  from turno.inbox_request r
  where r.request = inbox_answered.request
$$;

-- The same, of a request that must have been of the same kind: its answer has one of these words.
create or replace function turno.inbox_answered_with(request uuid, words text[]) returns jsonb
language plpgsql
stable
as $$
declare
  answer jsonb := turno.inbox_answered(inbox_answered_with.request);
begin
  if answer is not null and not answer ?| inbox_answered_with.words then
    raise exception 'request was used before, and for something else'
      using errcode = 'invalid_parameter_value', hint = 'Give each request an id of its own.';
  end if;
  return answer;
end
$$;

-- Keeps an answer. If the same request has been answered meanwhile (its connection was lost, and not the call), this one
-- is taken back, and asked again it gets that answer.
create or replace function turno.inbox_answer(request uuid, answer jsonb) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into turno.inbox_request (request, at, answer)
  select inbox_answer.request, clock_timestamp(), inbox_answer.answer
  where inbox_answer.request is not null
  on conflict do nothing;
  if not found and inbox_answer.request is not null then
    raise exception 'the request % is being answered already', inbox_answer.request
      using errcode = 'serialization_failure', hint = 'Ask again: the answer is the same.';
  end if;
end
$$;

-- Function file inbox_range

-- Purpose: numbers of items as ranges, which is how claims keep them: items are claimed in line, so a thousand of them
--          are one range most of the time.
-- Index:   none.

create or replace function turno.inbox_ranges(ids bigint[]) returns int8multirange
language plpgsql
immutable
as $$
declare
  first bigint;
  last  bigint;
begin
  if cardinality(ids) = 1 then
    return int8multirange(int8range(ids[1], ids[1], '[]'));
  end if;
  select min(i), max(i) into first, last
  from unnest(ids) i;
  -- Told apart first: to put ranges together one by one costs more than all the rest of a claim.
  if last - first + 1 = cardinality(ids) then
    return int8multirange(int8range(first, last, '[]'));
  end if;
  return (
    select range_agg(int8range(i, i, '[]'))
    from unnest(ids) i);
end
$$;

-- Where the items of some ranges are. Looked up range by range (lateral, offset 0), whatever the planner thinks of a table
-- that it knows nothing about.
create or replace function turno.inbox_places(lane integer, ids int8multirange) returns table (at tid)
language sql
stable
as $$
  select i.at
  from unnest(inbox_places.ids) r
  cross join lateral (
    select t.ctid as at
    from turno.inbox_item t
    where t.lane = inbox_places.lane
      and t.id >= lower(r)
      and t.id < upper(r)
    offset 0) i
$$;

create or replace function turno.inbox_count(ids int8multirange) returns bigint
language plpgsql
immutable
as $$
begin
  if ids = int8multirange(int8range(lower(ids), upper(ids))) then
    return upper(ids) - lower(ids);
  end if;
  return (
    select coalesce(sum(upper(r) - lower(r)), 0)
    from unnest(ids) r);
end
$$;

-- Function file inbox_push

-- Purpose: stores items, all or none; a known key is answered as a duplicate.
-- Index:   inbox_item_pkey, inbox_key_pkey.

create or replace function turno.inbox_push_check(
  queue        text,
  payloads     text[],
  keys         text[],
  priorities   integer[],
  delays       interval[],
  run_ats      timestamptz[],
  groups       text[],
  max_attempts integer[],
  max_payload  integer
) returns void
language plpgsql
immutable
as $$
declare
  many  integer := coalesce(cardinality(payloads), 0);
  wrong text;
begin
  perform turno.check_name('queue', queue, 255);
  if starts_with(queue, '$') then
    raise exception 'queue is %, and names that begin with $ are Turno''s own', quote_literal(queue)
      using errcode = 'invalid_parameter_value', hint = 'Choose another name; events are emitted with outbox_emit.';
  end if;
  if many > 10000 then
    raise exception 'items has % entries, and 10000 is the most', many
      using errcode = 'invalid_parameter_value', hint = 'Divide them.';
  end if;
  -- The whole first: a set-based look costs less than one by one, and is enough nearly always.
  if exists (
    select from unnest(payloads) p
    where p is null or octet_length(p) > max_payload) then
    raise exception 'payload is missing, or has more than % bytes', max_payload
      using errcode = 'invalid_parameter_value', hint = 'Store it elsewhere and push a reference, or raise max_payload.';
  end if;
  if exists (select from unnest(priorities) p where p not between 0 and 3) then
    select min(p)::text into wrong from unnest(priorities) p where p not between 0 and 3;
    raise exception 'priority is %, and must be between 0 and 3', wrong
      using errcode = 'invalid_parameter_value', hint = '0 is the most urgent, 1 the default.';
  end if;
  if exists (select from unnest(max_attempts) m where m not between 1 and 1000) then
    raise exception 'max_attempts must be between 1 and 1000'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for 5.';
  end if;
  if exists (select from unnest(delays) d where d < '0' or d > '3660 days') then
    raise exception 'delay must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Choose an earlier time.';
  end if;
  if exists (select from unnest(run_ats) t where not isfinite(t)) then
    raise exception 'run_at must be a time, not infinity'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for at once.';
  end if;
  perform turno.check_name('key', k, 255) from unnest(keys) k where k is not null;
  perform turno.check_name('group', g, 255) from unnest(groups) g where g is not null;
end
$$;

-- The size of a queue's payloads, as inbox_kind has it: a power of two, so that few rows are added as payloads grow.
create or replace function turno.inbox_size_class(bytes integer) returns integer
language sql
immutable
as $$
  select case when bytes <= 1024 then 1024 else (2 ^ least(ceil(log(2, bytes)), 30))::integer end
$$;

-- What is remembered of a push, should it be asked again.
create or replace function turno.inbox_push_answer(ids bigint[], duplicates integer[]) returns jsonb
language sql
stable
as $$
  select case
    -- In the order of their numbers, if none is a duplicate: a few bytes for a thousand.
    when duplicates is null then jsonb_build_object('ranges', turno.inbox_ranges(ids))
    else jsonb_build_object('ids', ids::text, 'duplicates', duplicates::text)
  end
$$;

-- Many at once. An array may be null where all items have the default. Answers their ids in the same order, and the
-- places, counted from one, of those whose keys were known: there the id is that of the item that has the key.
create or replace function turno.inbox_push_batch(
  queue        text,
  payloads     text[],
  keys         text[]        default null,
  priorities   integer[]     default null,
  delays       interval[]    default null,
  run_ats      timestamptz[] default null,
  groups       text[]        default null,
  max_attempts integer[]     default null,
  request      uuid          default null,
  max_payload  integer       default 1048576,
  out ids        bigint[],
  out duplicates integer[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      turno.inbox_queue;
  answer jsonb;
  fresh  bigint[];
  owners bigint[];  -- for each item, the one that has its key: itself, if it has none
  gone   boolean;
  stored bigint;
  timed  bigint;
  new_lanes integer;
  largest integer;
  known  boolean;
begin
  -- Before any number is taken: see inbox_late.
  perform pg_current_xact_id();
  if inbox_push_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_push_batch.request, '{ids,ranges}');
    if answer is not null then
      duplicates := answer->>'duplicates';
      ids := coalesce((answer->>'ids')::bigint[], array(
        select i
        from unnest((answer->>'ranges')::int8multirange) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i));
      return;
    end if;
  end if;
  perform turno.inbox_push_check(
    inbox_push_batch.queue, inbox_push_batch.payloads, inbox_push_batch.keys, inbox_push_batch.priorities,
    inbox_push_batch.delays, inbox_push_batch.run_ats, inbox_push_batch.groups, inbox_push_batch.max_attempts,
    inbox_push_batch.max_payload);
  select * into q
  from turno.inbox_queue t
  where t.name = inbox_push_batch.queue;
  if not found then
    q := turno.inbox_queue_made(inbox_push_batch.queue);
  end if;
  new_lanes := coalesce((select bit_or(1 << coalesce(p, 1)) from unnest(inbox_push_batch.priorities) p), 2);
  largest := (select max(octet_length(p)) from unnest(inbox_push_batch.payloads) p);
  select
    bit_or(k.lanes) & new_lanes = new_lanes
    and (inbox_push_batch.groups is null or bool_or(k.grouped))
    and max(k.bytes) >= coalesce(largest, 0)
  into known
  from turno.inbox_kind k
  where k.queue_id = q.id;
  if known is not true then
    insert into turno.inbox_kind (queue_id, lanes, grouped, bytes)
    values (q.id, new_lanes, inbox_push_batch.groups is not null, turno.inbox_size_class(coalesce(largest, 0)));
  end if;

  ids := array(
    select nextval('turno.inbox_item_id')
    from generate_series(1, cardinality(inbox_push_batch.payloads)));
  if inbox_push_batch.keys is not null then
    loop
      with first as (
        insert into turno.inbox_key (queue_id, key, id)
        select distinct on (k.key) q.id, k.key, k.id
        from unnest(inbox_push_batch.keys, ids) with ordinality k(key, id, place)
        where k.key is not null
        order by k.key, k.place
        on conflict do nothing
        returning id)
      select fresh || array_agg(f.id) into fresh
      from first f;
      -- A statement of its own: it sees the rows that the keys met.
      select array_agg(coalesce(t.id, a.id) order by a.place), bool_or(a.key is not null and t.id is null)
      into owners, gone
      from unnest(inbox_push_batch.keys, ids) with ordinality a(key, id, place)
      left join lateral (
        select k.id
        from turno.inbox_key k
        where k.queue_id = q.id
          and k.key = a.key
        offset 0) t on true;
      -- A key that was met and has gone since was swept in between: it is free.
      exit when not gone;
    end loop;
  end if;

  if num_nulls(
    inbox_push_batch.keys, inbox_push_batch.priorities, inbox_push_batch.delays, inbox_push_batch.run_ats,
    inbox_push_batch.groups, inbox_push_batch.max_attempts) = 6 then
    -- Most are as plain as that, and each array more to go through takes its time.
    insert into turno.inbox_item (lane, id, pushed_at, max_attempts, payload)
    select q.id * 4 + 1, a.id, clock_timestamp(), 5, a.payload::json
    from unnest(ids, inbox_push_batch.payloads) a(id, payload);
    stored := cardinality(ids);
    timed := 0;
  else
    with kept as (
      insert into turno.inbox_item (lane, id, run_at, pushed_at, max_attempts, "group", key, payload)
      select
        q.id * 4 + coalesce(a.priority, 1), a.id,
        -- A time that has come is no time: the item stands in line with the others.
        case when a.delay > '0' then clock_timestamp() + a.delay when a.run_at > clock_timestamp() then a.run_at end,
        clock_timestamp(), coalesce(a.max_attempts, 5), a."group", a.key, a.payload::json
      from unnest(
        ids, inbox_push_batch.payloads, inbox_push_batch.keys, inbox_push_batch.priorities, inbox_push_batch.delays,
        inbox_push_batch.run_ats, inbox_push_batch.groups, inbox_push_batch.max_attempts)
        a(id, payload, key, priority, delay, run_at, "group", max_attempts)
      where a.key is null
         or a.id = any (fresh)
      returning run_at)
    select count(*), count(k.run_at) into stored, timed
    from kept k;
  end if;
  insert into turno.inbox_tally (queue_id, items, timed)
  select q.id, stored, timed
  where stored > 0;
  perform turno.inbox_notify(q.name);

  if stored < cardinality(ids) then
    select array_agg(a.place order by a.place)
    into duplicates
    from unnest(ids, owners) with ordinality a(id, owner, place)
    where a.owner <> a.id;
    ids := owners;
  end if;
  if inbox_push_batch.request is not null then
    perform turno.inbox_answer(inbox_push_batch.request, turno.inbox_push_answer(ids, duplicates));
  end if;
end
$$;

comment on function turno.inbox_push_batch is
  'Stores many items, all or none. An array may be null where all items have the default. Answers their ids, and the places of duplicates.';

create or replace function turno.inbox_push(
  queue        text,
  payload      json,
  key          text        default null,
  priority     integer     default 1,
  delay        interval    default null,
  run_at       timestamptz default null,
  "group"      text        default null,
  max_attempts integer     default 5,
  request      uuid        default null,
  max_payload  integer     default 1048576
) returns turno.inbox_pushed
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select row(b.ids[1], b.duplicates is not null)::turno.inbox_pushed
  from turno.inbox_push_batch(
    inbox_push.queue, array[inbox_push.payload::text], case when inbox_push.key is not null then array[inbox_push.key] end,
    array[inbox_push.priority], array[inbox_push.delay], array[inbox_push.run_at], array[inbox_push."group"],
    array[inbox_push.max_attempts], inbox_push.request, inbox_push.max_payload) b
$$;

comment on function turno.inbox_push is
  'Puts one item of work into a queue. With a key that the queue knows, nothing is stored and duplicate is true.';

-- Function file inbox_push_together

-- Purpose: small pushes of several callers that arrived together: one round trip and one commit. Each caller's request is
--          remembered by itself, and answered by itself; place says whose, counted from one.
-- Index:   inbox_request_pkey, and those of inbox_push_batch.
--
-- Callers of one queue are neighbours, and queues are in order, so that two of these cannot wait for each other. Nobody
-- may have to wait for a stranger's open transaction, which may have pushed the same key: so this gives up soon. Whoever
-- is not answered asks alone.

create or replace function turno.inbox_push_together(
  queues       text[],
  sizes        integer[],
  requests     uuid[],
  payloads     text[],
  keys         text[]        default null,
  priorities   integer[]     default null,
  delays       interval[]    default null,
  run_ats      timestamptz[] default null,
  groups       text[]        default null,
  max_attempts integer[]     default null,
  max_payload  integer       default 1048576
) returns table (place bigint, ids bigint[], duplicates integer[])
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  many    integer := cardinality(inbox_push_together.queues);
  first   integer := 1; -- the first caller of a queue, and the last
  last    integer;
  a       integer := 1; -- the first item of a queue, and the last
  b       integer;
  before  integer;
  got     record;
  answers jsonb[] := '{}';
begin
  -- Sent again, because its answer was lost: that is found alone.
  if exists (
    select from turno.inbox_request r
    where r.request = any (inbox_push_together.requests)) then
    return;
  end if;
  while first <= many loop
    last := first;
    b := a - 1 + inbox_push_together.sizes[first];
    while last < many and inbox_push_together.queues[last + 1] = inbox_push_together.queues[first] loop
      last := last + 1;
      b := b + inbox_push_together.sizes[last];
    end loop;
    -- What none of a queue's items has is not told of them: a queue without groups stays one.
    select p.ids, p.duplicates into got
    from turno.inbox_push_batch(
      inbox_push_together.queues[first],
      inbox_push_together.payloads[a:b],
      case when array_remove(inbox_push_together.keys[a:b], null) <> '{}' then inbox_push_together.keys[a:b] end,
      inbox_push_together.priorities[a:b],
      case when array_remove(inbox_push_together.delays[a:b], null) <> '{}' then inbox_push_together.delays[a:b] end,
      case when array_remove(inbox_push_together.run_ats[a:b], null) <> '{}' then inbox_push_together.run_ats[a:b] end,
      case when array_remove(inbox_push_together.groups[a:b], null) <> '{}' then inbox_push_together.groups[a:b] end,
      inbox_push_together.max_attempts[a:b],
      null, inbox_push_together.max_payload) p;
    before := 0;
    for i in first..last loop
      place := i;
      ids := got.ids[before + 1:before + inbox_push_together.sizes[i]];
      duplicates := null;
      if got.duplicates is not null then
        select array_agg(d - before order by d) into duplicates
        from unnest(got.duplicates) d
        where d > before
          and d <= before + inbox_push_together.sizes[i];
      end if;
      answers := answers || turno.inbox_push_answer(ids, duplicates);
      before := before + inbox_push_together.sizes[i];
      return next;
    end loop;
    first := last + 1;
    a := b + 1;
  end loop;

  insert into turno.inbox_request (request, at, answer)
  select r.request, clock_timestamp(), r.answer
  from unnest(inbox_push_together.requests, answers) r(request, answer)
  on conflict do nothing;
  get diagnostics last = row_count;
  if last < many then
    raise exception 'one of the requests is being answered already'
      using errcode = 'serialization_failure', hint = 'Ask again: the answer is the same.';
  end if;
end
$$;

comment on function turno.inbox_push_together is
  'Stores the items of several callers, each with an answer of its own; whoever has none asks alone. Callers of one queue stand together, and queues are in order.';

-- Function file inbox_attempt

-- Purpose: what an attempt that did not succeed does to its item, whoever says so.
-- Index:   inbox_item_pkey.

-- An error's text as it is kept: at most 4000 bytes of it, and no half character. A byte that continues one begins with
-- the bits 10.
create or replace function turno.inbox_cut(error text) returns text
language sql
immutable
as $$
  select case
    when octet_length(b.bytes) <= 4000 then error
    else (
      select convert_from(substr(b.bytes, 1, n), 'UTF8')
      from generate_series(4000, 3997, -1) n
      where get_byte(b.bytes, n) & 192 <> 128
      order by n desc
      limit 1)
  end
  from convert_to(error, 'UTF8') b(bytes)
$$;

-- Kept: the last ten.
create or replace function turno.inbox_errors(errors jsonb, attempt integer, kind text, error text, worker text) returns jsonb
language sql
volatile
as $$
  select jsonb_agg(e.e order by e.n)
  from (
    select u.e, u.n
    from jsonb_array_elements(
      coalesce(errors, '[]') || jsonb_build_object(
        'attempt', attempt, 'at', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'kind', kind, 'error', error, 'worker', worker)) with ordinality u(e, n)
    order by u.n desc
    limit 10) e
$$;

-- What is recorded of the attempt of a worker that vanished.
create or replace function turno.inbox_vanished() returns text
language sql
immutable
as $$
  select 'the worker vanished: its claim was not extended in time'
$$;

-- How many to add for one more doubt (an attempt whose outcome is unknown): 1, or 0 from a million on. Doubts saturate, and
-- attempts is always the sum of the failed and the doubtful ones, so no counter overflows.
create or replace function turno.inbox_doubt(abandoned integer) returns integer
language sql
immutable
as $$
  select (abandoned < 1000000)::integer
$$;

-- Counts the attempt, and puts the item off until again_at, or (null, or no attempts left) aside. Answers its group. With
-- max_attempts = 0 there is no limit: only a null again_at puts the item aside.
create or replace function turno.inbox_end_attempt(
  lane     integer,
  id       bigint,
  kind     text,
  error    text,
  worker   text,
  again_at timestamptz
) returns text
language plpgsql
as $$
#variable_conflict use_column
declare
  i     turno.inbox_item;
  doubt integer;
begin
  select * into i
  from turno.inbox_item t
  where t.lane = inbox_end_attempt.lane
    and t.id = inbox_end_attempt.id
  for update;
  if not found then
    return null;
  end if;
  if inbox_end_attempt.kind = 'abandoned' then
    doubt := turno.inbox_doubt(i.abandoned);
    i.attempts := i.attempts + doubt;
    i.abandoned := i.abandoned + doubt;
  else
    i.attempts := i.attempts + 1;
  end if;
  i.errors := turno.inbox_errors(
    i.errors, i.attempts, inbox_end_attempt.kind, inbox_end_attempt.error, inbox_end_attempt.worker);
  if inbox_end_attempt.again_at is not null and (i.max_attempts = 0 or i.attempts < i.max_attempts) then
    update turno.inbox_item t
    set run_at    = inbox_end_attempt.again_at,
        attempts  = i.attempts,
        abandoned = i.abandoned,
        errors    = i.errors
    where t.lane = i.lane
      and t.id = i.id;
    insert into turno.inbox_tally (queue_id, timed)
    values (i.lane / 4, 1);
    return i."group";
  end if;
  delete from turno.inbox_item t
  where t.lane = i.lane
    and t.id = i.id;
  insert into turno.inbox_failed (
    id, lane, failed_at, pushed_at, attempts, abandoned, max_attempts, "group", key, errors, payload, worker)
  values (
    i.id, i.lane, clock_timestamp(), i.pushed_at, i.attempts, i.abandoned, i.max_attempts, i."group", i.key, i.errors,
    i.payload, inbox_end_attempt.worker);
  insert into turno.inbox_tally (queue_id, items, failed)
  values (i.lane / 4, -1, 1);
  return i."group";
end
$$;

-- Ends the attempts of one expired claim, each by itself. An item whose attempt cannot be ended is put off for a minute and
-- not counted, so that the others are not held up. Answers the groups of the items.
create or replace function turno.inbox_abandon_each(lane integer, ids int8multirange, worker text) returns text[]
language plpgsql
as $$
#variable_conflict use_column
declare
  item     bigint;
  of_item  text;
  groups   text[] := '{}';
begin
  for item in
    select i.id
    from unnest(inbox_abandon_each.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
  loop
    begin
      of_item := turno.inbox_end_attempt(
        inbox_abandon_each.lane, item, 'abandoned', turno.inbox_vanished(), inbox_abandon_each.worker, clock_timestamp());
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        raise warning 'the attempt at item % could not be ended: %', item, sqlerrm
          using hint = 'The item is tried again in a minute. Other items are claimed as usual.';
        of_item := null;
        with back as (
          update turno.inbox_item t
          set run_at = clock_timestamp() + interval '1 minute'
          where t.lane = inbox_abandon_each.lane
            and t.id = item
          returning t."group"),
        counted as (
          insert into turno.inbox_tally (queue_id, timed)
          select inbox_abandon_each.lane / 4, 1
          from back)
        select b."group" into of_item
        from back b;
    end;
    groups := groups || of_item;
  end loop;
  return groups;
end
$$;

-- Takes over claims whose time is up: some of them, if they are very many, for whoever claims is kept waiting. Answers
-- when there will be the next one.
create or replace function turno.inbox_abandon(queue_id integer) returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
declare
  b    turno.inbox_batch;
  many bigint := 0;
  groups text[];
  next timestamptz;
begin
  for b in
    select *
    from turno.inbox_batch t
    where t.queue_id = inbox_abandon.queue_id
      and t.until <= clock_timestamp()
    -- What was claimed first comes first again.
    order by t.n
    for update skip locked
  loop
    if many >= 1000 then
      return clock_timestamp();
    end if;
    -- One bad item must not fail the claim of all others: then each one is ended by itself.
    begin
      groups := array(
        select turno.inbox_end_attempt(
          b.lane, i.id, 'abandoned', turno.inbox_vanished(), b.worker, clock_timestamp())
        from unnest(b.ids) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i(id));
    exception
      when data_exception or integrity_constraint_violation or program_limit_exceeded then
        groups := turno.inbox_abandon_each(b.lane, b.ids, b.worker);
    end;
    groups := array_remove(groups, null);
    if groups <> '{}' then
      perform turno.inbox_free(null, array_fill(inbox_abandon.queue_id, array[cardinality(groups)]), groups);
    end if;
    many := many + turno.inbox_count(b.ids);
    delete from turno.inbox_batch t
    where t.token = b.token
      and t.lane = b.lane;
  end loop;
  select min(t.until) into next
  from turno.inbox_batch t
  where t.queue_id = inbox_abandon.queue_id;
  -- One that is just being settled is looked at again soon.
  return case when next is null then 'infinity' else greatest(next, clock_timestamp() + '100 milliseconds') end;
end
$$;

-- Function file inbox_group

-- Purpose: the rules of groups: one item at a time, the first one first.
-- Index:   inbox_item_group, inbox_batch_queue.
--
-- Whenever an item of a group leaves a worker's hands, for whatever reason, a note says so (inbox_freed): the next of the
-- group, which claims have passed over, may be claimed. So a note may be thrown away while its group is busy: there will
-- be another.

-- The first item of each group, of those in the queue: the only one that may be claimed.
create or replace function turno.inbox_heads(queue_id integer, groups text[])
returns table (lane integer, id bigint, "group" text, run_at timestamptz)
language sql
stable
as $$
  select h.*
  from (
    select distinct g
    from unnest(inbox_heads.groups) g
    where g is not null) d
  cross join lateral (
    select i.lane, i.id, i."group", i.run_at
    from turno.inbox_item i
    where hashtextextended(i."group", i.lane / 4) = hashtextextended(d.g, inbox_heads.queue_id)
      and i."group" = d.g
      and i.lane / 4 = inbox_heads.queue_id
    order by i.id
    limit 1) h
$$;

-- The groups of which an item is in a worker's hands. To be asked of those that may have come first only afterwards: a
-- revived item, or one that was committed late.
create or replace function turno.inbox_busy(queue_id integer) returns setof text
language sql
stable
as $$
  select g
  from turno.inbox_batch b
  cross join lateral unnest(b.groups) g
  where b.queue_id = inbox_busy.queue_id
$$;

-- Says that items of groups have left a worker's hands, for each the queue and the group: writes it down, does not keep
-- the groups busy by these claims any more, and calls whoever has nothing to do.
create or replace function turno.inbox_free(tokens uuid[], queues integer[], groups text[]) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into turno.inbox_freed (queue_id, groups)
  select u.queue_id, array_agg(u."group")
  from unnest(inbox_free.queues, inbox_free.groups) with ordinality u(queue_id, "group", place)
  group by u.queue_id, u.place / 100;
  update turno.inbox_batch b
  set groups = array(
    select g
    from unnest(b.groups) g
    -- Of this queue: a call may settle claims of several, and groups of one name in two queues are two groups.
    where g not in (
      select u."group"
      from unnest(inbox_free.queues, inbox_free.groups) u(queue_id, "group")
      where u.queue_id = b.queue_id))
  where b.token = any (inbox_free.tokens)
    and b.groups is not null;
  perform turno.inbox_call(q)
  from (select distinct unnest(inbox_free.queues)) u(q);
end
$$;

-- The next items of one lane, after a number; if they are to be in order, only the first of each group. Answers how far it
-- looked, too. The first items of some groups may be known already.
--
-- In growing pieces: where most items are behind others of their groups, each group is looked up once a piece, and not
-- once an item.
create or replace function turno.inbox_line(
  in_lane      integer,
  after        bigint,
  "limit"      integer,
  known_groups text[],
  known_heads  bigint[],
  in_order     boolean,
  out ids      bigint[],
  out groups   text[],
  out ending   bigint
)
language plpgsql
as $$
#variable_conflict use_column
declare
  piece       integer := inbox_line."limit";
  room        integer := inbox_line."limit";
  seen_ids    bigint[];
  seen_groups text[];
  furthest    bigint;
  unknown     text[];
  heads       bigint[];
  some_ids    bigint[];
  some_groups text[];
begin
  ending := inbox_line.after;
  loop
    -- The furthest in the same breath, or something could come between and be passed unseen.
    select
      array_agg(s.id), array_agg(s."group"),
      (select max(t.id) from turno.inbox_item t where t.lane = inbox_line.in_lane and t.id > ending)
    into seen_ids, seen_groups, furthest
    from (
      select t.id, t."group"
      from turno.inbox_item t
      where t.lane = inbox_line.in_lane
        and t.id > ending
        and t.run_at is null
      order by t.id
      limit piece) s;
    if not inbox_line.in_order or array_remove(seen_groups, null) = '{}' then
      some_ids := seen_ids[1:room];
      some_groups := seen_groups[1:room];
    else
      unknown := array(
        select g
        from unnest(seen_groups) g
        where g not in (select unnest(inbox_line.known_groups)));
      select array_agg(h.id) into heads
      from turno.inbox_heads(inbox_line.in_lane / 4, unknown) h;
      select array_agg(r.id), array_agg(r."group") into some_ids, some_groups
      from (
        select s.id, s."group"
        from unnest(seen_ids, seen_groups) s(id, "group")
        where s."group" is null
           or s.id in (select unnest(heads || inbox_line.known_heads))
        limit room) r;
    end if;
    ids := ids || some_ids;
    groups := groups || some_groups;
    room := room - coalesce(cardinality(some_ids), 0);
    if room = 0 then
      ending := some_ids[cardinality(some_ids)];
      return;
    end if;
    if coalesce(cardinality(seen_ids), 0) < piece then
      -- The end of the line: those that wait for a time are passed as well.
      ending := coalesce(furthest, ending);
      return;
    end if;
    ending := seen_ids[piece];
    piece := least(piece * 4, 10000);
  end loop;
end
$$;

-- Function file inbox_late

-- Purpose: finds what was committed late.
-- Index:   inbox_item_pkey between the floor and the cursor, inbox_batch_queue.

-- Claims what was committed behind the cursor: numbers are given out in order, and committed in any.
--
-- Whoever pushes has a transaction id before it takes a number. So when all transactions with an id up to "own",
-- which was given out after c was read, have ended, nothing can appear any more up to where c is: that is the
-- floor, and only what lies between it and the cursor needs to be looked at.
create or replace function turno.inbox_late(
  c       turno.inbox_cursor,
  own     xid8,
  "limit" integer,
  token   uuid,
  worker  text,
  until   timestamptz
) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  began      timestamptz := clock_timestamp();
  oldest     xid8;
  how_many   bigint;
begin
  with behind as materialized (
    select i.lane, i.id, i."group"
    from generate_series(0, 3) p
    -- What was claimed since the floor was where it is; what was claimed before lies below it.
    cross join lateral (
      select coalesce(range_agg(r), '{}') as ids
      from turno.inbox_batch b
      cross join lateral unnest(b.ids) r
      where b.queue_id = c.queue_id
        and b.n > c.floor_n
        and b.lane = c.queue_id * 4 + p) held
    cross join lateral (
      select t.lane, t.id, t."group"
      from turno.inbox_item t
      where t.lane = c.queue_id * 4 + p
        and t.id > c.floor_id[p + 1]
        and t.id <= c.at_id[p + 1]
        and t.run_at is null
        and not held.ids @> t.id) i),
  late as materialized (
    select l.lane, l.id, l."group"
    from behind l
    where l."group" is null
       or (
         l.id in (
           select h.id
           from turno.inbox_heads(c.queue_id, (select array_agg(g."group") from behind g)) h)
         and l."group" not in (select b from turno.inbox_busy(c.queue_id) b))
    order by l.lane, l.id
    limit inbox_late."limit"),
  claimed as (
    insert into turno.inbox_batch as b (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
    select
      inbox_late.token, l.lane, c.queue_id, c.n + 1, range_agg(int8range(l.id, l.id, '[]')),
      array_agg(l."group") filter (where l."group" is not null), inbox_late.worker, clock_timestamp(), inbox_late.until
    from late l
    group by l.lane
    on conflict (token, lane) do update
    set ids    = b.ids + excluded.ids,
        groups = b.groups || excluded.groups)
  select count(*), pg_snapshot_xmin(pg_current_snapshot()) into how_many, oldest
  from late;
  -- With the limit reached there may be more, and the floor stays.
  if how_many < inbox_late."limit" then
    if oldest >= own then
      c.floor_id := c.at_id;
      c.floor_n := c.n;
      c.mark_xid := null;
    elsif oldest > c.mark_xid then
      c.floor_id := c.mark_id;
      c.floor_n := c.mark_n;
      c.mark_xid := null;
    end if;
    if c.mark_xid is null and own is not null then
      c.mark_id := c.at_id;
      c.mark_n := c.n;
      c.mark_xid := own;
    end if;
  end if;
  c.late_at := clock_timestamp();
  c.late_cost := c.late_at - began;
  return c;
end
$$;

-- Function file inbox_sequence

-- Purpose: the numbers of items after the sequence has gone back: a data-only restore leaves it at its start, and logical replication
--          does not carry it. New items then have numbers that the cursors have passed, or that exist already.
-- Index:   inbox_item_pkey, inbox_failed_pkey, inbox_batch_queue.

-- The highest number in use.
create or replace function turno.inbox_highest_id() returns bigint
language sql
stable
as $$
  select greatest(
    (select max(i) from turno.inbox_cursor c cross join lateral unnest(c.at_id) i),
    (
      select max(i.id)
      from turno.inbox_queue q
      cross join lateral generate_series(0, 3) p
      cross join lateral (
        select t.id
        from turno.inbox_item t
        where t.lane = q.id * 4 + p
        order by t.id desc
        limit 1) i),
    (select max(t.id) from turno.inbox_failed t),
    0)
$$;

-- Raises the sequence above every number in use. The advisory lock keeps two callers from setting it one after the other: numbers
-- that were taken in between would be taken again.
create or replace function turno.inbox_raise_sequence() returns void
language plpgsql
as $$
declare
  highest bigint;
begin
  perform pg_advisory_xact_lock(1953853038, 0);
  highest := turno.inbox_highest_id();
  if (select s.last_value from turno.inbox_item_id s) < highest then
    perform setval('turno.inbox_item_id', highest);
  end if;
end
$$;

-- Makes the next claim of a queue look at every item below the cursor, as it looks for those that were committed late. The caller
-- has the queue's advisory lock.
create or replace function turno.inbox_look_behind(queue_id integer) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  c turno.inbox_cursor;
begin
  update turno.inbox_cursor t
  set floor_id = '{0,0,0,0}',
      floor_n  = 0,
      mark_id  = null,
      mark_n   = null,
      mark_xid = null,
      late_at  = '-infinity'
  where t.queue_id = inbox_look_behind.queue_id
    and t.n = (select max(o.n) from turno.inbox_cursor o where o.queue_id = inbox_look_behind.queue_id)
  returning * into c;
  return c;
end
$$;

-- How many items a queue has below its floor that are in line and that no claim holds: none of them would be claimed. An item of
-- a group is not counted, because it may wait for another of its group. At most 1000 are counted.
create or replace function turno.inbox_unreachable(queue_id integer) returns bigint
language sql
stable
as $$
  select count(*)
  from (
    select
    from (
      select t.floor_id
      from turno.inbox_cursor t
      where t.queue_id = inbox_unreachable.queue_id
      order by t.n desc
      limit 1) c
    cross join lateral generate_series(0, 3) p
    cross join lateral (
      select coalesce(range_agg(r), '{}') as ids
      from turno.inbox_batch b
      cross join lateral unnest(b.ids) r
      where b.queue_id = inbox_unreachable.queue_id
        and b.lane = inbox_unreachable.queue_id * 4 + p) held
    cross join lateral (
      select
      from turno.inbox_item t
      where t.lane = inbox_unreachable.queue_id * 4 + p
        and t.id <= c.floor_id[p + 1]
        and t.run_at is null
        and t."group" is null
        and not held.ids @> t.id
      limit 1000) i
    limit 1000) lost
$$;

-- What `turno doctor` reports.
create or replace function turno.inbox_numbers(out last_id bigint, out highest_id bigint, out unreachable bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    (select s.last_value from turno.inbox_item_id s),
    turno.inbox_highest_id(),
    (select coalesce(sum(turno.inbox_unreachable(q.id)), 0)::bigint from turno.inbox_queue q)
$$;

comment on function turno.inbox_numbers is
  'The last number that was given to an item, the highest in use, and how many items no claim would find. Repaired by `turno migrate --repair`.';

-- Repairs all queues. Answers how many items no claim would have found.
create or replace function turno.inbox_repair_numbers() returns bigint
language plpgsql
as $$
declare
  q    integer;
  lost bigint;
  many bigint := 0;
begin
  perform turno.inbox_raise_sequence();
  for q in
    select t.id
    from turno.inbox_queue t
    order by t.id
  loop
    perform pg_advisory_xact_lock(1953853038, q);
    lost := turno.inbox_unreachable(q);
    if lost > 0 then
      perform turno.inbox_look_behind(q);
      many := many + lost;
    end if;
  end loop;
  return many;
end
$$;

-- Function file inbox_claim

-- Purpose: claims items that are due: by priority; then those that have waited for a time, and then the others in order.
-- Index:   inbox_item_pkey from the cursor on, inbox_item_due, inbox_item_group; other plans are ruled out,
--          because an unanalysed table would invite them.
--
-- Claims of one queue take turns (an advisory lock), and each leaves its cursor to the next. What can be behind
-- the cursor and claimable has told so: with a time (given back, failed, abandoned), in inbox_freed (the next of
-- a group); or it could not, because its transaction committed late (inbox_late).

-- What a claim holds, in the order in which it should be begun.
create or replace function turno.inbox_held(token uuid) returns setof turno.inbox_taken
language sql
stable
as $$
  select i.id, i.attempts + 1, i.max_attempts, i.payload, i.key, i."group", i.lane % 4, i.pushed_at, b.until, i.abandoned::integer
  from turno.inbox_batch b
  cross join lateral unnest(b.ids) r
  cross join lateral (
    select *
    from turno.inbox_item t
    where t.lane = b.lane
      and t.id >= lower(r)
      and t.id < upper(r)
    offset 0) i
  where b.token = inbox_held.token
  order by b.lane, i.run_at is null, i.id
$$;

-- How many a claim holds.
create or replace function turno.inbox_size(token uuid) returns integer
language plpgsql
stable
as $$
begin
  return (
    select coalesce(sum(upper(r) - lower(r)), 0)
    from turno.inbox_batch b
    cross join lateral unnest(b.ids) r
    where b.token = inbox_size.token);
end
$$;

-- How many bytes the payloads of a claim have.
create or replace function turno.inbox_bytes(token uuid) returns bigint
language sql
stable
as $$
  select coalesce(sum(octet_length(h.payload::text)), 0)
  from turno.inbox_held(inbox_bytes.token) h
$$;

-- How many more items a claim has room for; of a queue with large payloads, so many as fit whatever their sizes are.
create or replace function turno.inbox_room(heavy boolean, "limit" integer, max_bytes integer, item_bytes integer, token uuid)
returns integer
language plpgsql
stable
as $$
declare
  held integer := turno.inbox_size(inbox_room.token);
  fit  bigint;
begin
  if not inbox_room.heavy then
    return inbox_room."limit" - held;
  end if;
  fit := (inbox_room.max_bytes - turno.inbox_bytes(inbox_room.token)) / inbox_room.item_bytes;
  return least(inbox_room."limit" - held, case when held = 0 then greatest(fit, 1) else greatest(fit, 0) end);
end
$$;

-- Adds items to a claim; one row of it for each lane.
create or replace function turno.inbox_hold(
  c      turno.inbox_cursor,
  lane   integer,
  ids    bigint[],
  groups text[],
  token  uuid,
  worker text,
  until  timestamptz
) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  if inbox_hold.ids is null then
    return;
  end if;
  insert into turno.inbox_batch as b (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
  values (
    inbox_hold.token, inbox_hold.lane, c.queue_id, c.n + 1, turno.inbox_ranges(inbox_hold.ids),
    nullif(array_remove(inbox_hold.groups, null), '{}'), inbox_hold.worker, clock_timestamp(), inbox_hold.until)
  on conflict (token, lane) do update
  set ids    = b.ids + excluded.ids,
      groups = b.groups || excluded.groups;
end
$$;

-- The whole rule: priority after priority, first what has become due by time (if anything is waiting) or by its group (if
-- there are any), then the line. In small statements, which begin faster than a large one.
create or replace function turno.inbox_take(
  c       turno.inbox_cursor,
  lanes   integer,
  grouped boolean,
  waiting boolean,
  "limit" integer,
  token   uuid,
  worker  text,
  until   timestamptz,
  in_order boolean
) returns turno.inbox_cursor
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at     timestamptz := clock_timestamp();
  due_from   timestamptz := case when now_at < c.due_at + '1 second' then c.due_from else '-infinity' end;
  due_left   boolean := false;
  left_over  integer := "limit";
  in_lane    integer;
  notes      bigint[];
  freed      text[];
  head_lanes integer[];
  head_ids   bigint[];
  head_groups text[];
  begun      text[];
  at_first   bigint[] := c.at_id;
  ids        bigint[];
  groups     text[];
  put_off    bigint;
  timed      bigint := 0;
  ending     bigint;
begin
  if inbox_take.grouped then
    -- Not many more than there is room for: each of them is looked up.
    select array_agg(distinct n.id), array_agg(g) into notes, freed
    from (
      select f.id, f.groups, sum(cardinality(f.groups)) over (order by f.id) - cardinality(f.groups) as before
      from (
        select *
        from turno.inbox_freed t
        where t.queue_id = c.queue_id
        order by t.id
        limit 1000) f) n
    cross join lateral unnest(n.groups) g
    where n.before < inbox_take."limit" + 100;
    select array_agg(h.lane), array_agg(h.id), array_agg(h."group") into head_lanes, head_ids, head_groups
    from (
      select *
      from turno.inbox_heads(c.queue_id, freed) t
      where t.run_at is null
        and t."group" not in (select b from turno.inbox_busy(c.queue_id) b)
      order by t.lane, t.id) h;
  end if;

  for p in 0..3 loop
    exit when left_over <= 0;
    continue when inbox_take.lanes & (1 << p) = 0;
    in_lane := c.queue_id * 4 + p;

    if inbox_take.waiting then
      with due as materialized (
        select t.ctid as place, t."group", not inbox_take.in_order or t."group" is null or t.id = h.id as is_head
        from turno.inbox_item t
        left join lateral turno.inbox_heads(c.queue_id, array[t."group"]) h on inbox_take.in_order and t."group" is not null
        where t.lane = in_lane
          and t.run_at >= due_from
          and t.run_at <= now_at
          -- The first of a group that is busy with others waits, and does not stand in the way.
          and not (t.id = h.id and t."group" in (select b from turno.inbox_busy(c.queue_id) b)) is true
        order by t.run_at, t.id
        limit left_over),
      -- Behind others of its group: back into line, or to wait for inbox_freed.
      parked as (
        update turno.inbox_item t
        set run_at = null
        from due d
        where t.ctid = d.place
          and not d.is_head
        returning 1),
      taken as (
        update turno.inbox_item t
        set run_at = 'infinity'
        from due d
        where t.ctid = d.place
          and d.is_head
        returning t.id, t."group")
      select array_agg(t.id), array_agg(t."group"), (select count(*) from parked), (select count(*) from due) >= left_over or due_left
      into ids, groups, put_off, due_left
      from taken t;
      perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      timed := timed + coalesce(cardinality(ids), 0) + put_off;
    end if;

    if left_over > 0 and head_ids is not null then
      select array_agg(h.id), array_agg(h."group") into ids, groups
      from (
        select u.id, u."group"
        from unnest(head_lanes, head_ids, head_groups) u(lane, id, "group")
        where u.lane = in_lane
          -- Those in front of the cursor are in line.
          and u.id <= c.at_id[p + 1]
        limit left_over) h;
      perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      begun := begun || groups;
    end if;

    if left_over > 0 then
      select l.ids, l.groups, l.ending into ids, groups, ending
      from turno.inbox_line(in_lane, c.at_id[p + 1], left_over, freed, head_ids, inbox_take.in_order) l;
      perform turno.inbox_hold(c, in_lane, ids, groups, inbox_take.token, inbox_take.worker, inbox_take.until);
      left_over := left_over - coalesce(cardinality(ids), 0);
      c.at_id[p + 1] := ending;
    end if;
  end loop;

  if notes is not null then
    -- One that was written since is the next claim's.
    delete from turno.inbox_freed f
    where f.queue_id = c.queue_id
      and f.id = any (notes);
  end if;
  if left_over <= 0 and head_ids is not null then
    -- What there was no room for is noted again.
    insert into turno.inbox_freed (queue_id, groups)
    select c.queue_id, array_agg(u."group")
    from unnest(head_lanes, head_ids, head_groups) with ordinality u(lane, id, "group", place)
    where u.id <= at_first[u.lane % 4 + 1]
      and u."group" not in (select unnest(begun))
    group by u.place / 100;
  end if;
  if timed > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (c.queue_id, -timed);
  end if;
  if inbox_take.waiting and not due_left then
    -- Times may be committed a little late; those that are later still are found from the beginning, once a second.
    c.due_from := now_at - interval '1 second';
    c.due_at := case when due_from = '-infinity' then now_at else c.due_at end;
  end if;
  return c;
end
$$;

-- Claims for one worker, under a token that the caller chose: the same call repeated is answered the same.
--
-- Not in order, several of one group are claimed together, and by others at once. Such a claim has to be settled as a
-- whole: what keeps a group busy is the claim, not the item.
--
-- With "later", a claim that would have to wait long for another transaction answers one row without an id, and has claimed
-- nothing. So a connection pool is not used up by callers that wait for one open transaction.
--
-- The payloads of one claim have max_bytes together at the most; one item is claimed whatever its size. Where the queue's
-- payloads are so small that the limit cannot be reached, sizes are not looked at. Elsewhere items are claimed in pieces that fit
-- in any case, and 1000 of them at the most.
create or replace function turno.inbox_claim_batch(
  queue   text,
  worker  text,
  "limit" integer,
  lease   interval,
  token   uuid,
  durable boolean,
  in_order boolean default true,
  later   boolean default false,
  max_bytes integer default 16777216
) returns setof turno.inbox_taken
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q       record;
  at      record;
  c       turno.inbox_cursor;
  old     turno.inbox_cursor;
  own     xid8;
  until   timestamptz;
  base    integer;
  look    boolean;
  overdue boolean;
  waiting boolean;
  p       integer;
  got     bigint;
  room    integer;
  heavy   boolean;
  held    integer;
  lock_timeout text;
begin
  perform turno.check_name('queue', inbox_claim_batch.queue, 255);
  perform turno.check_name('worker', inbox_claim_batch.worker, 255);
  perform turno.check_lease(inbox_claim_batch.lease);
  if inbox_claim_batch."limit" is null or inbox_claim_batch."limit" not between 0 and 10000 then
    raise exception 'limit is %, and must be between 0 and 10000', coalesce(inbox_claim_batch."limit"::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Claim fewer at a time, and more often.';
  end if;
  -- A queue that nobody has pushed to is empty, and claiming does not make it.
  select t.id, k.lanes, k.grouped, k.bytes into q
  from turno.inbox_queue t
  cross join lateral (
    select
      coalesce(bit_or(d.lanes), 0) as lanes, coalesce(bool_or(d.grouped), false) as grouped,
      coalesce(max(d.bytes), 1024) as bytes
    from turno.inbox_kind d
    where d.queue_id = t.id) k
  where t.name = inbox_claim_batch.queue;
  if not found or inbox_claim_batch."limit" = 0 then
    return;
  end if;
  base := q.id * 4;
  heavy := inbox_claim_batch."limit"::bigint * q.bytes > inbox_claim_batch.max_bytes;
  if heavy then
    inbox_claim_batch."limit" := least(inbox_claim_batch."limit", 1000);
  end if;
  -- A claim that a crash forgets is one that has ended: its item is claimable again, and its holder is told stale. So
  -- it need not wait for the disk, if the transaction is all its own.
  if not inbox_claim_batch.durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if not inbox_claim_batch.later then
    perform pg_advisory_xact_lock(1953853038, q.id); -- "turn" in ASCII
  elsif not pg_try_advisory_xact_lock(1953853038, q.id) then
    lock_timeout := current_setting('lock_timeout');
    begin
      -- Claims are short: longer than this waits only who meets a transaction that does other things after its claim.
      perform set_config('lock_timeout', '100ms', true);
      perform pg_advisory_xact_lock(1953853038, q.id);
      perform set_config('lock_timeout', lock_timeout, true);
    exception when lock_not_available then
      return next null::turno.inbox_taken;
      return;
    end;
  end if;
  -- Not before it is our turn: the same call may be under way still, if only its connection was lost.
  select
    exists (select from turno.inbox_batch b where b.token = inbox_claim_batch.token) as again,
    exists (
      select from generate_series(0, 3) p
      cross join lateral (
        select from turno.inbox_item t
        where q.lanes & (1 << p) <> 0
          and t.lane = base + p
          and t.run_at >= case when clock_timestamp() < (l.cursor).due_at + '1 second' then (l.cursor).due_from else '-infinity' end
          and t.run_at <= clock_timestamp()
        limit 1) d) as waiting,
    (select i.last_value from turno.inbox_item_id i) as last_id,
    l.cursor
  into strict at
  from (
    select t as cursor
    from turno.inbox_cursor t
    where t.queue_id = q.id
    order by t.n desc
    limit 1) l;
  if at.again then
    return query select * from turno.inbox_held(inbox_claim_batch.token);
    return;
  end if;
  c := at.cursor;
  if at.last_id < greatest(c.at_id[1], c.at_id[2], c.at_id[3], c.at_id[4]) then
    -- The sequence has gone back, and items may have been pushed below the cursor.
    perform turno.inbox_raise_sequence();
    c := turno.inbox_look_behind(q.id);
  end if;
  waiting := at.waiting;
  old := c;
  until := clock_timestamp() + inbox_claim_batch.lease;
  look := c.floor_id <> c.at_id and clock_timestamp() >= c.late_at + 10 * c.late_cost;
  -- A number taken by somebody who came after our own number would be missed if we had it from before.
  if look and pg_current_xact_id_if_assigned() is null then
    own := pg_current_xact_id();
  end if;
  if c.expiry <= clock_timestamp() then
    c.expiry := turno.inbox_abandon(q.id);
    waiting := true;
  end if;
  overdue := look and clock_timestamp() >= c.late_at + '1 second';
  if inbox_claim_batch."limit" > 16 and not (heavy or waiting or q.grouped or overdue) then
    -- Many, and nothing but the line: all of it in one statement, which reads each item once.
    return query
    with ready as materialized (
      select i.*
      from generate_series(0, 3) p
      cross join lateral (
        select t.lane, t.id, t.attempts, t.max_attempts, t.payload, t.key, t."group", t.pushed_at, t.abandoned
        from turno.inbox_item t
        where t.lane = base + p
          and t.id > c.at_id[p + 1]
          and t.run_at is null
          -- In the rare case that the queue has its first groups since we looked.
          and (
            t."group" is null
            or not inbox_claim_batch.in_order
            or t.id = (select h.id from turno.inbox_heads(q.id, array[t."group"]) h))
        order by t.id
        limit inbox_claim_batch."limit") i
      limit inbox_claim_batch."limit"),
    last_lane as (
      select max(r.lane) as lane, count(*) as got
      from ready r),
    reached as materialized (
      select array(
        select case
          when base + p > l.lane and l.got = inbox_claim_batch."limit" then c.at_id[p + 1]
          when base + p = l.lane and l.got = inbox_claim_batch."limit" then (select max(r.id) from ready r where r.lane = l.lane)
          else coalesce(
            (select max(t.id) from turno.inbox_item t where t.lane = base + p and t.id > c.at_id[p + 1]), c.at_id[p + 1])
        end
        from generate_series(0, 3) p) as at_id, l.got
      from last_lane l),
    held as (
      insert into turno.inbox_batch (token, lane, queue_id, n, ids, groups, worker, claimed_at, until)
      select
        inbox_claim_batch.token, r.lane, c.queue_id, c.n + 1, turno.inbox_ranges(array_agg(r.id)),
        array_agg(r."group") filter (where r."group" is not null), inbox_claim_batch.worker, clock_timestamp(), until
      from ready r
      group by r.lane),
    moved as (
      insert into turno.inbox_cursor (
        queue_id, n, at_id, floor_id, floor_n, mark_id, mark_n, mark_xid, late_at, late_cost, due_from, due_at, expiry)
      select
        c.queue_id, c.n + 1, a.at_id, c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost,
        c.due_from, c.due_at, case when a.got > 0 then least(c.expiry, until) else c.expiry end
      from reached a
      where a.at_id <> c.at_id
         or c.expiry <> old.expiry
      returning queue_id),
    passed as (
      delete from turno.inbox_cursor t
      using moved m
      where t.queue_id = m.queue_id
        and t.n = c.n)
    select
      r.id, r.attempts + 1, r.max_attempts::integer, r.payload, r.key, r."group", r.lane - base, r.pushed_at, until,
      r.abandoned::integer
    from ready r;
    get diagnostics got = row_count;
    if got = inbox_claim_batch."limit" or not look then
      return;
    end if;
    -- There is room for what came late.
    select l.floor_id, l.floor_n, l.mark_id, l.mark_n, l.mark_xid, l.late_at, l.late_cost
    into c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost
    from turno.inbox_late(c, own, (inbox_claim_batch."limit" - got)::integer, inbox_claim_batch.token, inbox_claim_batch.worker, until) l;
    update turno.inbox_cursor t
    set floor_id  = c.floor_id,
        floor_n   = c.floor_n,
        mark_id   = c.mark_id,
        mark_n    = c.mark_n,
        mark_xid  = c.mark_xid,
        late_at   = c.late_at,
        late_cost = c.late_cost,
        -- A look that has claimed nothing has no end that others would have to wait for.
        expiry    = case
          when exists (select from turno.inbox_batch b where b.token = inbox_claim_batch.token) then least(t.expiry, until)
          else t.expiry
        end
    where t.queue_id = c.queue_id
      and t.n between c.n and c.n + 1;
    if got = 0 then
      return query select * from turno.inbox_held(inbox_claim_batch.token);
    else
      return query
      select h.*
      from turno.inbox_held(inbox_claim_batch.token) h
      where h.id <= c.at_id[h.priority + 1];
    end if;
    return;
  end if;

  if not (heavy or waiting or q.grouped or overdue) and q.lanes in (1, 2, 4, 8) then
    -- A few, and nothing but one line: in small statements, which begin faster than a large one.
    p := case q.lanes when 1 then 0 when 2 then 1 when 4 then 2 else 3 end;
    select
      array_agg(s.id) as ids, bool_or(s."group" is not null) as grouped,
      (select max(t.id) from turno.inbox_item t where t.lane = base + p and t.id > c.at_id[p + 1]) as furthest
    into at
    from (
      select t.id, t."group"
      from turno.inbox_item t
      where t.lane = base + p
        and t.id > c.at_id[p + 1]
        and t.run_at is null
      order by t.id
      limit inbox_claim_batch."limit") s;
    got := coalesce(cardinality(at.ids), 0);
    if not coalesce(at.grouped, false) and (got = inbox_claim_batch."limit" or not look) then
      if at.furthest is null and c.expiry = old.expiry then
        return;
      end if;
      c.at_id[p + 1] := case when got = inbox_claim_batch."limit" then at.ids[got] else coalesce(at.furthest, c.at_id[p + 1]) end;
      insert into turno.inbox_cursor (
        queue_id, n, at_id, floor_id, floor_n, mark_id, mark_n, mark_xid, late_at, late_cost, due_from, due_at, expiry)
      values (
        c.queue_id, old.n + 1, c.at_id, c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost,
        c.due_from, c.due_at, case when got > 0 then least(c.expiry, until) else c.expiry end);
      delete from turno.inbox_cursor t
      where t.queue_id = q.id
        and t.n = old.n;
      if got > 0 then
        insert into turno.inbox_batch (token, lane, queue_id, n, ids, worker, claimed_at, until)
        values (
          inbox_claim_batch.token, base + p, q.id, old.n + 1, turno.inbox_ranges(at.ids), inbox_claim_batch.worker,
          clock_timestamp(), until);
        return query
        select
          t.id, t.attempts + 1, t.max_attempts::integer, t.payload, t.key, t."group", p, t.pushed_at, until,
          t.abandoned::integer
        from turno.inbox_item t
        where t.lane = base + p
          and t.id = any (at.ids)
        order by t.id;
      end if;
      return;
    end if;
  end if;

  room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  if overdue then
    c := turno.inbox_late(c, own, room, inbox_claim_batch.token, inbox_claim_batch.worker, until);
    room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  end if;
  while room > 0 loop
    held := turno.inbox_size(inbox_claim_batch.token);
    c := turno.inbox_take(
      c, q.lanes, q.grouped, waiting, room, inbox_claim_batch.token, inbox_claim_batch.worker, until,
      inbox_claim_batch.in_order);
    -- The end of the line.
    exit when not heavy or turno.inbox_size(inbox_claim_batch.token) - held < room;
    room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  end loop;
  room := turno.inbox_room(heavy, inbox_claim_batch."limit", inbox_claim_batch.max_bytes, q.bytes, inbox_claim_batch.token);
  if room > 0 and look and not overdue then
    -- There is room for what came late, up to where the cursor was.
    select l.floor_id, l.floor_n, l.mark_id, l.mark_n, l.mark_xid, l.late_at, l.late_cost
    into c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost
    from turno.inbox_late(old, own, room, inbox_claim_batch.token, inbox_claim_batch.worker, until) l;
  end if;
  room := inbox_claim_batch."limit" - turno.inbox_size(inbox_claim_batch.token);
  if c is distinct from old or room < inbox_claim_batch."limit" then
    insert into turno.inbox_cursor (
      queue_id, n, at_id, floor_id, floor_n, mark_id, mark_n, mark_xid, late_at, late_cost, due_from, due_at, expiry)
    values (
      c.queue_id, old.n + 1, c.at_id, c.floor_id, c.floor_n, c.mark_id, c.mark_n, c.mark_xid, c.late_at, c.late_cost,
      c.due_from, c.due_at,
      case when room < inbox_claim_batch."limit" then least(c.expiry, until) else c.expiry end);
    delete from turno.inbox_cursor t
    where t.queue_id = old.queue_id
      and t.n = old.n;
  end if;
  if room < inbox_claim_batch."limit" then
    return query select * from turno.inbox_held(inbox_claim_batch.token);
  end if;
end
$$;

comment on function turno.inbox_claim_batch is
  'As inbox_claim, with a token of the caller''s choosing, by which all the claims are known.';

create or replace function turno.inbox_claim(
  queue   text,
  worker  text     default 'sql',
  "limit" integer  default 1,
  lease   interval default '30 seconds',
  request uuid     default null
) returns setof turno.inbox_claimed
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.id, t.id || '@' || r.token, t.attempt, t.max_attempts, t.payload, t.key, t."group", t.priority, t.pushed_at, t.expires_at
  from (select coalesce(inbox_claim.request, gen_random_uuid()) as token offset 0) r
  cross join lateral turno.inbox_claim_batch(
    inbox_claim.queue, inbox_claim.worker, inbox_claim."limit", inbox_claim.lease, r.token, true) t
$$;

comment on function turno.inbox_claim is
  'Claims up to limit items of a queue for one worker. Each comes with its claim, which every change to it has to present. Call it in a transaction of its own: other claims of the queue wait for it to end.';

-- Function file inbox_settle

-- Purpose: ends what a worker holds: the one place that decides whether a claim is still right.
-- Index:   inbox_batch_pkey, inbox_item_pkey. Rows are looked up one by one (lateral, offset 0) and changed where they
--          were found (ctid): so no statistics can turn a join round, and scan a table for a handful of rows.

-- Takes items out of their claims, and answers those that were in them. A claim that is over by time, but was taken
-- over by nobody, is still right.
create or replace function turno.inbox_let_go(ids bigint[], tokens uuid[])
returns table (place bigint, id bigint, token uuid, lane integer, worker text)
language plpgsql
as $$
#variable_conflict use_column
begin
  -- Locked first, and looked at by the next statement, which sees them as they are now.
  perform 1
  from turno.inbox_batch b
  where b.token = any (inbox_let_go.tokens)
  order by b.token, b.lane
  for update;
  return query
  with asked as (
    select distinct on (a.id, a.token) a.place, a.id, a.token
    from unnest(inbox_let_go.ids, inbox_let_go.tokens) with ordinality a(id, token, place)
    order by a.id, a.token, a.place),
  batch as materialized (
    select b.ctid as at, b.token, b.lane, b.ids, b.worker
    from turno.inbox_batch b
    where b.token = any (inbox_let_go.tokens)),
  hit as materialized (
    select a.place, a.id, a.token, b.at, b.lane, b.worker
    from asked a
    join batch b on b.token = a.token and b.ids @> a.id),
  gone as materialized (
    select h.at, turno.inbox_ranges(array_agg(h.id)) as ids
    from hit h
    group by h.at),
  shrunk as (
    update turno.inbox_batch b
    set ids = b.ids - g.ids
    from gone g
    where b.ctid = g.at
      and not b.ids <@ g.ids),
  ended as (
    delete from turno.inbox_batch b
    using gone g
    where b.ctid = g.at
      and b.ids <@ g.ids)
  select h.place, h.id, h.token, h.lane, h.worker
  from hit h;
end
$$;

-- Those of the claims whose places are not among the ones that were right.
create or replace function turno.inbox_stale(ids bigint[], tokens uuid[], right_places bigint[]) returns text[]
language sql
immutable
as $$
  select coalesce(array_agg(a.id || '@' || a.token order by a.place), '{}')
  from unnest(ids, tokens) with ordinality a(id, token, place)
  where a.place <> all (coalesce(right_places, '{}'))
$$;

-- Every answer that can be repeated is one of these two.
create or replace function turno.inbox_told(answer jsonb) returns turno.inbox_settled
language sql
immutable
as $$
  select row((answer->>'done')::bigint, array(select jsonb_array_elements_text(answer->'stale')))::turno.inbox_settled
$$;

create or replace function turno.inbox_tell(request uuid, settled turno.inbox_settled) returns turno.inbox_settled
language plpgsql
as $$
begin
  perform turno.inbox_answer(request, jsonb_build_object('done', settled.done, 'stale', to_jsonb(settled.stale)));
  return settled;
end
$$;

-- Many at once, perhaps for several callers: for each token and request, the items that are done. None is named twice.
--
-- Claim by claim, in small statements: one large statement takes longer to begin than all of these to run.
create or replace function turno.inbox_complete_batch(tokens uuid[], ids int8multirange[], requests uuid[])
returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  b      turno.inbox_batch;
  hit    int8multirange;
  hits   int8multirange;
  many   bigint;
  done   bigint := 0;
  left_over int8multirange[] := inbox_complete_batch.ids;
  -- For each token and request.
  done_ids     int8multirange[] := array_fill('{}'::int8multirange, array[cardinality(inbox_complete_batch.tokens)]);
  done_queues  integer[] := array_fill(null::integer, array[cardinality(inbox_complete_batch.tokens)]);
  done_workers text[] := array_fill(null::text, array[cardinality(inbox_complete_batch.tokens)]);
  some_keys   text[];
  some_groups text[];
  groups      text[];
  queues      integer[];
  stale       text[];
begin
  -- What is locked is read as it is now.
  for b in
    select *
    from turno.inbox_batch t
    where t.token = any (inbox_complete_batch.tokens)
    order by t.token, t.lane
    for update
  loop
    hits := '{}';
    for n in 1..cardinality(inbox_complete_batch.tokens) loop
      if inbox_complete_batch.tokens[n] = b.token then
        hit := b.ids * left_over[n];
        if not isempty(hit) then
          left_over[n] := left_over[n] - hit;
          hits := hits + hit;
          done_ids[n] := done_ids[n] + hit;
          done_queues[n] := b.queue_id;
          done_workers[n] := b.worker;
        end if;
      end if;
    end loop;
    continue when isempty(hits);
    many := turno.inbox_count(hits);
    done := done + many;
    insert into turno.inbox_tally (queue_id, items, completed)
    values (b.queue_id, -many, many);
    if hits = int8multirange(int8range(lower(hits), upper(hits))) then
      with gone as (
        delete from turno.inbox_item i
        where i.lane = b.lane
          and i.id >= lower(hits)
          and i.id < upper(hits)
        returning i.key, i."group")
      select array_agg(g.key) filter (where g.key is not null), array_agg(g."group") filter (where g."group" is not null)
      into some_keys, some_groups
      from gone g;
    else
      with gone as (
        delete from turno.inbox_item i
        where i.ctid = any (array(select t.at from turno.inbox_places(b.lane, hits) t))
        returning i.key, i."group")
      select array_agg(g.key) filter (where g.key is not null), array_agg(g."group") filter (where g."group" is not null)
      into some_keys, some_groups
      from gone g;
    end if;
    if b.ids <@ hits then
      delete from turno.inbox_batch t
      where t.token = b.token
        and t.lane = b.lane;
    else
      update turno.inbox_batch t
      set ids = b.ids - hits
      where t.token = b.token
        and t.lane = b.lane;
    end if;
    if some_keys is not null then
      update turno.inbox_key k
      set done_at = clock_timestamp()
      where k.queue_id = b.queue_id
        and k.key = any (some_keys);
    end if;
    if some_groups is not null then
      groups := groups || some_groups;
      queues := queues || array_fill(b.queue_id, array[cardinality(some_groups)]);
    end if;
  end loop;

  if done > 0 then
    insert into turno.inbox_done as d (request, token, queue_id, at, worker, ids)
    select u.request, u.token, u.queue_id, clock_timestamp(), u.worker, u.ids
    from unnest(inbox_complete_batch.requests, inbox_complete_batch.tokens, done_queues, done_workers, done_ids)
      u(request, token, queue_id, worker, ids)
    where u.queue_id is not null
    on conflict (request, token, queue_id) do update
    set ids = d.ids + excluded.ids;
  end if;
  if groups is not null then
    perform turno.inbox_free(inbox_complete_batch.tokens, queues, groups);
  end if;
  -- The record of the completion is the record of the request: what the same request did before was right too. Looked at
  -- only now, because it may have done that while this one waited for the claim.
  for n in 1..cardinality(left_over) loop
    if not isempty(left_over[n]) then
      hits := coalesce((
        select range_agg(r)
        from turno.inbox_done d
        cross join lateral unnest(d.ids) r
        where d.request = inbox_complete_batch.requests[n]
          and d.token = inbox_complete_batch.tokens[n]), '{}');
      done := done + turno.inbox_count(left_over[n] * hits);
      stale := stale || array(
        select i.id || '@' || inbox_complete_batch.tokens[n]
        from unnest(left_over[n] - hits) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i(id));
    end if;
  end loop;
  return row(done, coalesce(stale, '{}'))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_complete_batch is
  'Ends items that are done; those whose claim is no longer right are answered as stale, and nothing is done to them.';

-- A claim as it is written, ITEM@TOKEN, in its two parts.
create or replace function turno.inbox_parse(claims text[], out ids bigint[], out tokens uuid[])
language plpgsql
immutable
as $$
declare
  wrong text;
begin
  select c into wrong
  from unnest(claims) c
  where c is null
     or c !~ '^[0-9]{1,18}@[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
  limit 1;
  if found then
    raise exception 'claim is not one: %', coalesce(quote_literal(left(wrong, 60)), 'null')
      using errcode = 'invalid_parameter_value', hint = 'It looks like 17@0190f1f4-2b3c-7d4e-8f50-112233445566, as inbox_claim answered it.';
  end if;
  select array_agg(split_part(c, '@', 1)::bigint order by n), array_agg(split_part(c, '@', 2)::uuid order by n)
  into ids, tokens
  from unnest(claims) with ordinality u(c, n);
end
$$;

create or replace function turno.inbox_complete(claims text[], request uuid default null) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  own    uuid := coalesce(inbox_complete.request, gen_random_uuid());
  ids    bigint[];
  tokens uuid[];
  s      turno.inbox_settled;
  stale  text[];
begin
  select p.ids, p.tokens into ids, tokens
  from turno.inbox_parse(inbox_complete.claims) p;
  select d.* into s
  from (
    select array_agg(g.token) as tokens, array_agg(g.ids) as ids, array_agg(own) as requests
    from (
      select u.token, turno.inbox_ranges(array_agg(distinct u.id)) as ids
      from unnest(ids, tokens) u(id, token)
      group by u.token) g) a
  cross join lateral turno.inbox_complete_batch(a.tokens, a.ids, a.requests) d;
  if s.done = cardinality(ids) then
    return s;
  end if;
  -- In the order of the claims; what is there twice was right once.
  select array_agg(u.claim order by u.place) into stale
  from (
    select c.id || '@' || c.token as claim, c.place, row_number() over (partition by c.id, c.token order by c.place) as again
    from unnest(ids, tokens) with ordinality c(id, token, place)) u
  where u.again > 1
     or u.claim = any (s.stale);
  return row(coalesce(s.done, 0), coalesce(stale, '{}'))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_complete(text[], uuid) is
  'Ends items that are done. In the transaction of the work, item and effect end together: look at stale, and roll back if it is not empty.';

-- The same for one item, which fails instead of answering stale: as the last statement of a transaction, effect and
-- completion commit together or not at all.
create or replace function turno.inbox_complete(claim text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if (turno.inbox_complete(array[claim])).done = 0 then
    raise exception 'the claim % is stale: another worker may have the item', claim
      using errcode = 'TN410', hint = 'Roll back: the item is done again by whoever has it now.';
  end if;
end
$$;

comment on function turno.inbox_complete(text) is
  'Ends one item that is done, and fails if the claim is stale: effect and completion then commit together or not at all.';

-- Function file inbox_fail

-- Purpose: records failed attempts, and gives back what was not begun.
-- Index:   as in inbox_settle.sql.

-- How long to wait after so many attempts: a second, doubled each time, an hour at the most, and not all at once.
create or replace function turno.inbox_backoff(attempts integer) returns interval
language sql
volatile
as $$
  select least(power(2, least(attempts, 30) - 1) * interval '1 second', interval '1 hour') * (0.5 + random())
$$;

create or replace function turno.inbox_fail_batch(
  ids       bigint[],
  tokens    uuid[],
  errors    text[],
  retry_ins interval[] default null,
  finals    boolean[]  default null,
  request   uuid       default null
) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  answer jsonb;
  places bigint[];
  queues integer[];
  groups text[];
  group_queues integer[];
begin
  if inbox_fail_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_fail_batch.request, '{done}');
    if answer is not null then
      return turno.inbox_told(answer);
    end if;
  end if;
  if exists (select from unnest(inbox_fail_batch.retry_ins) r where r < '0' or r > '3660 days') then
    raise exception 'retry_in must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for an exponential back-off.';
  end if;
  with hit as materialized (
    select h.*, i.attempts
    from turno.inbox_let_go(inbox_fail_batch.ids, inbox_fail_batch.tokens) h
    cross join lateral (
      select t.attempts
      from turno.inbox_item t
      where t.lane = h.lane
        and t.id = h.id
      offset 0) i),
  ended as materialized (
    select h.place, h.lane / 4 as queue_id, turno.inbox_end_attempt(
      h.lane, h.id, 'failed', turno.inbox_cut(coalesce(inbox_fail_batch.errors[h.place], '')), h.worker,
      case when not coalesce(inbox_fail_batch.finals[h.place], false)
        then clock_timestamp() + coalesce(inbox_fail_batch.retry_ins[h.place], turno.inbox_backoff(h.attempts + 1))
      end) as "group"
    from hit h)
  select
    array_agg(e.place), array_agg(distinct e.queue_id),
    array_agg(e.queue_id) filter (where e."group" is not null), array_agg(e."group") filter (where e."group" is not null)
  into places, queues, group_queues, groups
  from ended e;
  if groups is not null then
    perform turno.inbox_free(inbox_fail_batch.tokens, group_queues, groups);
  end if;
  perform turno.inbox_call(q)
  from unnest(queues) q;
  return turno.inbox_tell(
    inbox_fail_batch.request,
    row(
      coalesce(cardinality(places), 0),
      turno.inbox_stale(inbox_fail_batch.ids, inbox_fail_batch.tokens, places))::turno.inbox_settled);
end
$$;

comment on function turno.inbox_fail_batch is
  'Records failed attempts: each item is tried again later or, with no attempts left, set aside as failed.';

create or replace function turno.inbox_fail(
  claims   text[],
  error    text     default '',
  retry_in interval default null,
  final    boolean  default false,
  request  uuid     default null
) returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_fail.claims) p
  cross join lateral turno.inbox_fail_batch(
    p.ids, p.tokens, array_fill(inbox_fail.error, array[cardinality(p.ids)]),
    array_fill(inbox_fail.retry_in, array[cardinality(p.ids)]), array_fill(inbox_fail.final, array[cardinality(p.ids)]),
    inbox_fail.request) s
$$;

comment on function turno.inbox_fail is
  'Records a failed attempt at each item: tried again after retry_in (exponential if null), or set aside if final or out of attempts.';

create or replace function turno.inbox_give_back_batch(ids bigint[], tokens uuid[], request uuid default null)
returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  answer jsonb;
  places bigint[];
  queues integer[];
  groups text[];
  group_queues integer[];
begin
  if inbox_give_back_batch.request is not null then
    answer := turno.inbox_answered_with(inbox_give_back_batch.request, '{done}');
    if answer is not null then
      return turno.inbox_told(answer);
    end if;
  end if;
  with hit as materialized (
    select h.place, i.at
    from turno.inbox_let_go(inbox_give_back_batch.ids, inbox_give_back_batch.tokens) h
    cross join lateral (
      select t.ctid as at
      from turno.inbox_item t
      where t.lane = h.lane
        and t.id = h.id
      offset 0) i),
  back as (
    update turno.inbox_item i
    set run_at = clock_timestamp()
    from hit h
    where i.ctid = h.at
    returning h.place, i.lane / 4 as queue_id, i."group"),
  counted as (
    insert into turno.inbox_tally (queue_id, timed)
    select b.queue_id, count(*)
    from back b
    group by b.queue_id)
  select
    array_agg(b.place), array_agg(distinct b.queue_id),
    array_agg(b.queue_id) filter (where b."group" is not null), array_agg(b."group") filter (where b."group" is not null)
  into places, queues, group_queues, groups
  from back b;
  if groups is not null then
    perform turno.inbox_free(inbox_give_back_batch.tokens, group_queues, groups);
  end if;
  perform turno.inbox_call(q)
  from unnest(queues) q;
  return turno.inbox_tell(
    inbox_give_back_batch.request,
    row(
      coalesce(cardinality(places), 0),
      turno.inbox_stale(inbox_give_back_batch.ids, inbox_give_back_batch.tokens, places))::turno.inbox_settled);
end
$$;

comment on function turno.inbox_give_back_batch is 'Gives items back that were not begun: claimable at once, and no attempt counted.';

create or replace function turno.inbox_give_back(claims text[], request uuid default null) returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_give_back.claims) p
  cross join lateral turno.inbox_give_back_batch(p.ids, p.tokens, inbox_give_back.request) s
$$;

comment on function turno.inbox_give_back is 'Gives items back that were not begun: claimable at once, and no attempt counted.';

-- Function file inbox_extend

-- Purpose: lengthens claims; never shortens one. Items that were claimed together live together.
-- Index:   inbox_batch_pkey.

create or replace function turno.inbox_extend_batch(ids bigint[], tokens uuid[], lease interval) returns turno.inbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  places bigint[];
  many   bigint;
begin
  perform turno.check_lease(inbox_extend_batch.lease);
  perform 1
  from turno.inbox_batch b
  where b.token = any (inbox_extend_batch.tokens)
  order by b.token, b.lane
  for update;
  with lives as (
    update turno.inbox_batch b
    set until = greatest(b.until, clock_timestamp() + inbox_extend_batch.lease)
    where b.token = any (inbox_extend_batch.tokens)
    returning b.token, b.ids)
  -- Given twice, a claim is still held, and counted once.
  select array_agg(a.place), count(distinct (a.id, a.token)) into places, many
  from unnest(inbox_extend_batch.ids, inbox_extend_batch.tokens) with ordinality a(id, token, place)
  join lives l on l.token = a.token and l.ids @> a.id;
  return row(many, turno.inbox_stale(inbox_extend_batch.ids, inbox_extend_batch.tokens, places))::turno.inbox_settled;
end
$$;

comment on function turno.inbox_extend_batch is 'Lengthens claims to lease from now; those that are gone are answered as stale.';

create or replace function turno.inbox_extend(claims text[], lease interval default '30 seconds') returns turno.inbox_settled
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.*
  from turno.inbox_parse(inbox_extend.claims) p
  cross join lateral turno.inbox_extend_batch(p.ids, p.tokens, inbox_extend.lease) s
$$;

comment on function turno.inbox_extend is
  'Lengthens claims to lease from now; those that are gone are answered as stale. Items that were claimed together live together.';

-- Function file inbox_requeue

-- Purpose: what a person does: revives or discards failed items, and takes items away from workers that hold them for too long.
-- Index:   inbox_failed_oldest, inbox_failed_queue, inbox_key_pkey, inbox_batch_queue.

-- Failed items of a queue: those with the ids or, if these are null, the oldest failures. Locked for the caller, who deletes
-- them. Two statements, so that each is along its own index, whatever the statistics say.
create or replace function turno.inbox_failed_places(q integer, ids bigint[], "limit" integer) returns setof tid
language plpgsql
as $$
begin
  if ids is null then
    return query
    select t.ctid
    from turno.inbox_failed t
    where t.lane / 4 = q
    order by t.failed_at
    limit inbox_failed_places."limit"
    for update skip locked;
  else
    return query
    select t.ctid
    from turno.inbox_failed t
    where t.lane / 4 = q
      and t.id = any (ids)
    limit inbox_failed_places."limit"
    for update skip locked;
  end if;
end
$$;

-- Revives; the outbox's events too, which are items of a queue of their own.
create or replace function turno.inbox_revive(q integer, ids bigint[], "limit" integer) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  many bigint;
begin
  with back as (
    delete from turno.inbox_failed f
    where f.ctid = any (array(select turno.inbox_failed_places(q, inbox_revive.ids, inbox_revive."limit")))
    returning *),
  pushed as (
    insert into turno.inbox_item (lane, id, run_at, pushed_at, max_attempts, "group", key, errors, payload)
    select b.lane, b.id, clock_timestamp(), b.pushed_at, b.max_attempts, b."group", b.key, b.errors, b.payload
    from back b
    returning 1)
  select count(*) into many
  from pushed;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, items, timed, failed)
    values (q, many, many, -many);
    perform turno.inbox_call(q);
  end if;
  return many;
end
$$;

create or replace function turno.inbox_requeue(
  queue   text,
  ids     bigint[] default null,
  "limit" integer  default 10000,
  "user"  text     default null,
  reason  text     default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  many bigint;
begin
  perform turno.deed_check(inbox_requeue."user", inbox_requeue.reason);
  many := turno.inbox_revive(turno.inbox_queue_id(inbox_requeue.queue), inbox_requeue.ids, inbox_requeue."limit");
  perform turno.deed_record(
    'inbox', 'requeued', inbox_requeue.queue, many, inbox_requeue."user", inbox_requeue.reason);
  return many;
end
$$;

comment on function turno.inbox_requeue is
  'Revives failed items of a queue, those with the ids or all, with all their attempts before them. Answers how many; call again while it answers limit. The user and the reason go into the history.';

-- Deletes failed items. Their groups went on when they failed, and are not concerned. Their keys are kept as those of
-- completed items are, so that a repeated push is still a duplicate. Not for the outbox, whose keys may be parked.
create or replace function turno.inbox_forget_failed(q integer, ids bigint[], "limit" integer) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  many bigint;
begin
  with gone as (
    delete from turno.inbox_failed f
    where f.ctid = any (array(
      select turno.inbox_failed_places(q, inbox_forget_failed.ids, inbox_forget_failed."limit")))
    returning f.id, f.key),
  kept as (
    update turno.inbox_key k
    set done_at = clock_timestamp()
    from gone g
    where k.queue_id = q
      and k.key = g.key
      and k.id = g.id)
  select count(*) into many
  from gone g;
  insert into turno.inbox_tally (queue_id, failed)
  select q, -many
  where many > 0;
  return many;
end
$$;

-- No default for ids: to discard all takes an explicit null.
create or replace function turno.inbox_discard(
  queue   text,
  ids     bigint[],
  "limit" integer default 10000,
  "user"  text    default null,
  reason  text    default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  many bigint;
begin
  perform turno.deed_check(inbox_discard."user", inbox_discard.reason);
  if starts_with(inbox_discard.queue, '$') then
    raise exception 'queue is %, and names that begin with $ are Turno''s own', quote_literal(inbox_discard.queue)
      using errcode = 'invalid_parameter_value', hint = 'Dead events are discarded with outbox_discard.';
  end if;
  many := turno.inbox_forget_failed(
    turno.inbox_queue_id(inbox_discard.queue), inbox_discard.ids, inbox_discard."limit");
  perform turno.deed_record(
    'inbox', 'discarded', inbox_discard.queue, many, inbox_discard."user", inbox_discard.reason);
  return many;
end
$$;

comment on function turno.inbox_discard is
  'Deletes failed items of a queue, those with the ids or, if these are null, all. Their keys stay known as those of completed items do. Answers how many; call again while it answers limit. The user and the reason go into the history.';

create or replace function turno.inbox_reset(
  queue      text,
  older_than interval default '0',
  "limit"    integer  default 10000,
  "user"     text     default null,
  reason     text     default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.inbox_queue_id(inbox_reset.queue);
  b    turno.inbox_batch;
  groups text[];
  got  bigint;
  many bigint := 0;
begin
  perform turno.deed_check(inbox_reset."user", inbox_reset.reason);
  for b in
    select *
    from turno.inbox_batch t
    where t.queue_id = q
      and t.claimed_at <= clock_timestamp() - inbox_reset.older_than
    order by t.n
    for update skip locked
  loop
    exit when many >= inbox_reset."limit";
    with back as (
      update turno.inbox_item i
      set run_at = clock_timestamp()
      where i.ctid = any (array(select t.at from turno.inbox_places(b.lane, b.ids) t))
      returning i."group")
    select count(*), array_agg(a."group") filter (where a."group" is not null) into got, groups
    from back a;
    if groups is not null then
      perform turno.inbox_free(null, array_fill(q, array[cardinality(groups)]), groups);
    end if;
    many := many + got;
    delete from turno.inbox_batch t
    where t.token = b.token
      and t.lane = b.lane;
  end loop;
  if many > 0 then
    insert into turno.inbox_tally (queue_id, timed)
    values (q, many);
    perform turno.inbox_call(q);
  end if;
  perform turno.deed_record('inbox', 'reset', inbox_reset.queue, many, inbox_reset."user", inbox_reset.reason);
  return many;
end
$$;

comment on function turno.inbox_reset is
  'Takes away the claims of a queue that were made at least older_than ago: their items are claimable at once, and the claims stale. Answers how many items. The user and the reason go into the history.';

-- Function file inbox_stats

-- Purpose: how many items are in which state, from counters.
-- Index:   inbox_total_pkey, inbox_item_pkey from the cursor on, inbox_item_due, inbox_batch_queue.

-- Folds what was counted one by one into the totals. Whoever cannot at once leaves it to whoever does.
create or replace function turno.inbox_fold() returns void
language plpgsql
as $$
begin
  if not pg_try_advisory_xact_lock(1953853038, 0) then
    return;
  end if;
  with gone as (
    delete from turno.inbox_tally
    returning *),
  sums as (
    select g.queue_id, sum(g.items) as items, sum(g.timed) as timed, sum(g.completed) as completed, sum(g.failed) as failed
    from gone g
    group by g.queue_id)
  update turno.inbox_total t
  set items     = t.items + s.items,
      timed     = t.timed + s.timed,
      completed = t.completed + s.completed,
      failed    = t.failed + s.failed
  from sums s
  where t.queue_id = s.queue_id;
end
$$;

-- How many of the items that wait for a time still do. Counted from the shorter end, if one of them is short.
create or replace function turno.inbox_scheduled(queue_id integer, timed bigint) returns bigint
language plpgsql
stable
as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  many   bigint;
begin
  if inbox_scheduled.timed = 0 then
    return 0;
  end if;
  select count(*) into many
  from (
    select
    from generate_series(0, 3) p
    cross join lateral (
      select
      from turno.inbox_item t
      where t.lane = inbox_scheduled.queue_id * 4 + p
        and t.run_at <= now_at
      limit 10001) d
    limit 10001) due;
  if many <= 10000 then
    return greatest(inbox_scheduled.timed - many, 0);
  end if;
  select count(*) into many
  from turno.inbox_item t
  where t.lane between inbox_scheduled.queue_id * 4 and inbox_scheduled.queue_id * 4 + 3
    and t.run_at > now_at
    and t.run_at < 'infinity';
  return many;
end
$$;

-- Since when the oldest one that could be claimed has been waiting.
create or replace function turno.inbox_oldest(queue_id integer) returns timestamptz
language sql
stable
as $$
  select min(o.since)
  from (
    select *
    from turno.inbox_cursor t
    where t.queue_id = inbox_oldest.queue_id
    order by t.n desc
    limit 1) c
  cross join generate_series(0, 3) p
  cross join lateral (
    (select t.pushed_at as since
    from turno.inbox_item t
    where t.lane = inbox_oldest.queue_id * 4 + p
      and t.id > c.at_id[p + 1]
      and t.run_at is null
    order by t.id
    limit 1)
    union all
    (select t.run_at
    from turno.inbox_item t
    where t.lane = inbox_oldest.queue_id * 4 + p
      and t.run_at <= clock_timestamp()
    order by t.run_at
    limit 1)
    union all
    -- Those that wait for their group, or were committed late.
    (select t.pushed_at
    from (
      select i.lane, i.id, i.pushed_at
      from turno.inbox_item i
      where i.lane = inbox_oldest.queue_id * 4 + p
        and i.id <= c.at_id[p + 1]
        and i.run_at is null
      order by i.id
      limit 1000) t
    where not exists (
      select from turno.inbox_batch b
      where b.queue_id = inbox_oldest.queue_id
        and b.lane = t.lane
        and b.ids @> t.id)
    order by t.id
    limit 1)) o
$$;

create or replace function turno.inbox_stats(queue text default null, prefix text default '') returns setof turno.inbox_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  -- A standby, or a transaction that only reads, adds them up and leaves them.
  if current_setting('transaction_read_only') = 'off' then
    perform turno.inbox_fold();
  end if;
  return query
  with held as (
    select b.queue_id, sum(upper(r) - lower(r))::bigint as many
    from turno.inbox_batch b
    cross join lateral unnest(b.ids) r
    where b.until > clock_timestamp()
    group by b.queue_id),
  late as (
    select t.queue_id, sum(t.items) as items, sum(t.timed) as timed, sum(t.completed) as completed, sum(t.failed) as failed
    from turno.inbox_tally t
    group by t.queue_id),
  counted as (
    select
      q.id, q.name, t.items + coalesce(l.items, 0) as items, t.timed + coalesce(l.timed, 0) as timed,
      t.completed + coalesce(l.completed, 0) as completed, t.failed + coalesce(l.failed, 0) as failed,
      coalesce(h.many, 0) as processing
    from turno.inbox_queue q
    join turno.inbox_total t on t.queue_id = q.id
    left join late l on l.queue_id = q.id
    left join held h on h.queue_id = q.id
    where (q.name = inbox_stats.queue or inbox_stats.queue is null and not starts_with(q.name, '$'))
      and starts_with(q.name, inbox_stats.prefix)),
  -- Counters and claims are read at one moment, the clock at another; and the clock once, or the states would not add up.
  known as materialized (
    select c.*, least(turno.inbox_scheduled(c.id, c.timed::bigint), greatest(c.items - c.processing, 0)) as scheduled
    from counted c)
  select
    k.name, (k.items + k.completed + k.failed)::bigint, greatest(k.items - k.processing - k.scheduled, 0)::bigint, k.scheduled::bigint,
    least(k.processing, k.items)::bigint, k.completed::bigint, k.failed::bigint,
    case when k.items - k.processing - k.scheduled > 0
      then clock_timestamp() - coalesce(turno.inbox_oldest(k.id), clock_timestamp())
    end
  from known k
  order by k.name;
  if not found and inbox_stats.queue is not null then
    perform turno.check_name('queue', inbox_stats.queue, 255);
    return next row(inbox_stats.queue, 0, 0, 0, 0, 0, 0, null)::turno.inbox_counts;
  end if;
end
$$;

comment on function turno.inbox_stats is
  'How many items of one queue, or of all whose names begin with prefix, are pending, scheduled, processing, completed and failed.';

-- Function file inbox_list

-- Purpose: one page of a queue's items in one state, for people.
-- Index:   inbox_item_pkey, inbox_failed_queue, inbox_done_at.

create or replace function turno.inbox_list(queue text, state text, after bigint default null, "limit" integer default 100)
returns setof turno.inbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.inbox_queue_id(inbox_list.queue);
begin
  if inbox_list.state = 'failed' then
    return query
    select
      f.id, 'failed', f.payload, f.key, f."group", f.lane % 4, f.attempts::integer, f.abandoned::integer, f.worker, f.pushed_at,
      f.failed_at, f.errors
    from turno.inbox_failed f
    where f.lane / 4 = q
      and f.id > coalesce(inbox_list.after, 0)
    order by f.id
    limit inbox_list."limit";
  elsif inbox_list.state = 'completed' then
    return query
    select
      i.id, 'completed', null::json, null::text, null::text, null::integer, 0, 0, d.worker, null::timestamptz, d.at, null::jsonb
    from turno.inbox_done d
    cross join lateral unnest(d.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
    where d.queue_id = q
      and (inbox_list.after is null or i.id < inbox_list.after)
    order by i.id desc
    limit inbox_list."limit";
  elsif inbox_list.state in ('pending', 'scheduled', 'processing') then
    return query
    select
      i.id, inbox_list.state, i.payload, i.key, i."group", i.lane % 4, i.attempts::integer, i.abandoned::integer, b.worker,
      i.pushed_at,
      case inbox_list.state when 'processing' then b.claimed_at else coalesce(nullif(i.run_at, 'infinity'), i.pushed_at) end, i.errors
    from turno.inbox_item i
    left join lateral (
      select t.worker, t.claimed_at
      from turno.inbox_batch t
      where t.queue_id = q
        and t.lane = i.lane
        and t.ids @> i.id
        and t.until > clock_timestamp()
      limit 1) b on true
    where i.lane between q * 4 and q * 4 + 3
      and i.id > coalesce(inbox_list.after, 0)
      and case
        when b.worker is not null then 'processing'
        when i.run_at > clock_timestamp() and i.run_at < 'infinity' then 'scheduled'
        else 'pending'
      end = inbox_list.state
    order by i.id
    limit inbox_list."limit";
  else
    raise exception 'state is %, and must be pending, scheduled, processing, completed or failed', coalesce(quote_literal(inbox_list.state), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name one of them.';
  end if;
end
$$;

comment on function turno.inbox_list is 'One page of the items of a queue that are in one state, in order of their ids; completed ones newest first.';

-- Function file inbox_queues

-- Purpose: in which queues claims are, for whoever has to know before it settles them; a claim that is over is in none.
-- Index:   inbox_batch_pkey, inbox_queue_pkey.

create or replace function turno.inbox_queues(ids bigint[], tokens uuid[]) returns table (place bigint, queue text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select a.place, q.name
  from unnest(inbox_queues.ids, inbox_queues.tokens) with ordinality a(id, token, place)
  cross join lateral (
    select t.queue_id
    from turno.inbox_batch t
    where t.token = a.token
      and t.ids @> a.id
    limit 1) b
  join turno.inbox_queue q on q.id = b.queue_id;
end
$$;

comment on function turno.inbox_queues is 'In which queue each claim is; a claim that is over is in none.';

-- Function file outbox_emit

-- Purpose: stores events in the caller's transaction: they are published if and only if it commits.
-- Index:   inbox_item_pkey, inbox_key_pkey.

-- The word by which brokers route an event: TicketStatusChangedEvent is ticket.status.changed. In Rust: sink/routing.rs.
create or replace function turno.outbox_routing_key(type text) returns text
language sql
immutable
as $$
  select case
    when c.class !~ '^[A-Z]' then type
    -- Of these letters only: what others are in small ones depends on the database.
    else lower(regexp_replace(
      regexp_replace(
        case when c.class = 'Event' then c.class else regexp_replace(c.class, 'Event$', '') end,
        '([A-Z])([A-Z][a-z])', '\1.\2', 'g'),
      '([^A-Z._-])([A-Z])', '\1.\2', 'g') collate "C")
  end
  from regexp_replace(type, '^.*[.:+/]', '') c(class)
$$;

-- An id that grows with the time, as RFC 9562 has it (version 7).
create or replace function turno.uuid7() returns uuid
language sql
volatile
as $$
  select encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
          from 1 for 6),
        52, 1),
      53, 1), 'hex')::uuid
$$;

-- Header names that sinks write themselves.
create or replace function turno.outbox_reserved(header text) returns boolean
language sql
immutable
as $$
  select lower(header) in (
      'type', 'correlationid', 'timestamp', 'key', 'traceparent', 'tracestate', 'x-possible-duplicate', 'idempotency-key')
    or lower(header) ~ '^(ce-|webhook-|nats-|content-)'
$$;

create or replace function turno.outbox_check(
  types           text[],
  payloads        text[],
  keys            text[],
  correlation_ids text[],
  traceparents    text[],
  tracestates     text[],
  headers         text[],
  delays          interval[],
  max_payload     integer
) returns void
language plpgsql
immutable
as $$
declare
  many  integer := coalesce(cardinality(types), 0);
  wrong text;
begin
  if many > 10000 then
    raise exception 'events has % entries, and 10000 is the most', many
      using errcode = 'invalid_parameter_value', hint = 'Divide them.';
  end if;
  perform turno.check_name('type', t, 255)
  from unnest(types) t;
  select t into wrong
  from unnest(types) t
  where octet_length(turno.outbox_routing_key(t)) > 255
  limit 1;
  if found then
    raise exception 'type is too long: its routing key has more than 255 bytes (%…)', left(wrong, 60)
      using errcode = 'invalid_parameter_value', hint = 'Give the event a shorter type.';
  end if;
  if coalesce(cardinality(payloads), 0) <> many or exists (
    select from unnest(payloads) p
    where p is null or octet_length(p) > max_payload) then
    raise exception 'payload is missing, or has more than % bytes', max_payload
      using errcode = 'invalid_parameter_value', hint = 'Store it elsewhere and emit a reference, or raise max_payload.';
  end if;
  perform turno.check_name('key', k, 255) from unnest(keys) k where k is not null;
  perform turno.check_name('correlation_id', c, 255) from unnest(correlation_ids) c where c is not null;
  if exists (select from unnest(traceparents) t where t !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,200})?$') then
    raise exception 'traceparent is not one of the W3C''s'
      using errcode = 'invalid_parameter_value', hint = 'It looks like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.';
  end if;
  perform turno.check_name('tracestate', t, 512) from unnest(tracestates) t where t is not null;
  if exists (select from unnest(delays) d where d < '0' or d > '3660 days') then
    raise exception 'delay must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Choose an earlier time.';
  end if;
  if exists (select from unnest(headers) h where h is not null and json_typeof(h::json) <> 'object') then
    raise exception 'headers must be a JSON object of texts'
      using errcode = 'invalid_parameter_value', hint = 'Such as {"tenant": "7"}.';
  end if;
  if exists (
    select from unnest(headers) h
    where h is not null
      and (select count(*) from json_each(h::json)) > 64) then
    raise exception 'headers has more than 64 entries'
      using errcode = 'invalid_parameter_value', hint = 'Put them into the payload.';
  end if;
  select e.key into wrong
  from unnest(headers) h
  cross join lateral json_each(h::json) e
  where h is not null
    and (e.key !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$' or turno.outbox_reserved(e.key) or json_typeof(e.value) <> 'string'
      or octet_length(e.value #>> '{}') > 4096 or (e.value #>> '{}') ~ '[\u0001-\u001f\u007f-\u009f]')
  limit 1;
  if found then
    raise exception 'headers has one that cannot be sent: %', quote_literal(left(wrong, 100))
      using errcode = 'invalid_parameter_value',
        hint = 'A name has 1 to 100 letters, digits, _ . or -, and is none that sinks write themselves; a value is text of at most 4096 bytes without control characters.';
  end if;
end
$$;

-- Many at once. An array may be null where no event has what it is about. An id that is given is emitted once; answers
-- the ids in the same order, and the same ones if the request is repeated.
create or replace function turno.outbox_emit_batch(
  types           text[],
  payloads        text[],
  keys            text[]     default null,
  correlation_ids text[]     default null,
  traceparents    text[]     default null,
  tracestates     text[]     default null,
  headers         text[]     default null,
  delays          interval[] default null,
  ids             uuid[]     default null,
  max_payload     integer    default 1048576,
  request         uuid       default null
) returns uuid[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      turno.inbox_queue;
  answer jsonb;
  seqs   bigint[];
  events uuid[];
  fresh  bigint[];
  known  boolean;
  largest integer;
  stored bigint;
  timed  bigint;
begin
  -- Before any number is taken: see inbox_late.
  perform pg_current_xact_id();
  if outbox_emit_batch.request is not null then
    answer := turno.inbox_answered_with(outbox_emit_batch.request, '{events}');
    if answer is not null then
      return (answer->>'events')::uuid[];
    end if;
  end if;
  perform turno.outbox_check(
    outbox_emit_batch.types, outbox_emit_batch.payloads, outbox_emit_batch.keys, outbox_emit_batch.correlation_ids,
    outbox_emit_batch.traceparents, outbox_emit_batch.tracestates, outbox_emit_batch.headers, outbox_emit_batch.delays,
    outbox_emit_batch.max_payload);
  select * into strict q
  from turno.inbox_queue t
  where t.name = '$outbox';
  -- With what an event has besides its payload and its headers.
  largest := (
    select max(octet_length(u.payload) + coalesce(octet_length(u.headers), 0)) + 4096
    from unnest(outbox_emit_batch.payloads, outbox_emit_batch.headers) u(payload, headers));
  select
    bool_or(k.lanes = 2)
    and (outbox_emit_batch.keys is null or bool_or(k.grouped))
    and max(k.bytes) >= coalesce(largest, 0)
  into known
  from turno.inbox_kind k
  where k.queue_id = q.id;
  if known is not true then
    insert into turno.inbox_kind (queue_id, lanes, grouped, bytes)
    values (q.id, 2, outbox_emit_batch.keys is not null, turno.inbox_size_class(coalesce(largest, 0)));
  end if;
  seqs := array(
    select nextval('turno.inbox_item_id')
    from generate_series(1, cardinality(outbox_emit_batch.types)));
  events := array(
    select coalesce(outbox_emit_batch.ids[n], turno.uuid7())
    from generate_series(1, cardinality(outbox_emit_batch.types)) n);
  if outbox_emit_batch.ids is not null then
    with first as (
      insert into turno.inbox_key (queue_id, key, id)
      select distinct on (k.id) q.id, k.id::text, k.seq
      from unnest(outbox_emit_batch.ids, seqs) with ordinality k(id, seq, place)
      where k.id is not null
      order by k.id, k.place
      on conflict do nothing
      returning id)
    select array_agg(f.id) into fresh
    from first f;
  end if;
  with kept as (
    insert into turno.inbox_item (lane, id, run_at, pushed_at, max_attempts, "group", key, payload)
    select
      q.id * 4 + 1, a.seq, case when a.delay > '0' then clock_timestamp() + a.delay end, clock_timestamp(),
      -- No limit: the relay decides how often an event may be refused, and relays that vanish are not its fault.
      0, a.key, a.id::text,
      -- The payload alone has to be JSON, and not only what it is put into.
      ('{"type":' || to_json(a.type)
        || coalesce(',"correlation_id":' || to_json(a.correlation_id), '')
        || coalesce(',"traceparent":' || to_json(a.traceparent), '')
        || coalesce(',"tracestate":' || to_json(a.tracestate), '')
        || coalesce(',"headers":' || a.header, '')
        || ',"payload":' || (a.payload::json)::text || '}')::json
    from unnest(
      seqs, events, outbox_emit_batch.ids, outbox_emit_batch.types, outbox_emit_batch.payloads, outbox_emit_batch.keys,
      outbox_emit_batch.correlation_ids, outbox_emit_batch.traceparents, outbox_emit_batch.tracestates,
      outbox_emit_batch.headers, outbox_emit_batch.delays)
      a(seq, id, given, type, payload, key, correlation_id, traceparent, tracestate, header, delay)
    where a.given is null
       or a.seq = any (fresh)
    returning run_at)
  select count(*), count(k.run_at) into stored, timed
  from kept k;
  if stored > 0 then
    insert into turno.inbox_tally (queue_id, items, timed)
    values (q.id, stored, timed);
    perform turno.inbox_notify(q.name);
  end if;
  if outbox_emit_batch.request is not null then
    perform turno.inbox_answer(outbox_emit_batch.request, jsonb_build_object('events', events::text));
  end if;
  return events;
end
$$;

comment on function turno.outbox_emit_batch is
  'Emits many events in this transaction. An array may be null where no event has what it is about. Answers their ids; one that is given and known is not emitted again.';

create or replace function turno.outbox_emit(
  type           text,
  payload        json,
  key            text     default null,
  correlation_id text     default null,
  headers        json     default null,
  delay          interval default null,
  id             uuid     default null,
  traceparent    text     default null,
  tracestate     text     default null
) returns uuid
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (turno.outbox_emit_batch(
    array[outbox_emit.type], array[outbox_emit.payload::text],
    case when outbox_emit.key is not null then array[outbox_emit.key] end, array[outbox_emit.correlation_id],
    array[outbox_emit.traceparent], array[outbox_emit.tracestate], array[outbox_emit.headers::text],
    array[outbox_emit.delay], case when outbox_emit.id is not null then array[outbox_emit.id] end))[1]
$$;

comment on function turno.outbox_emit is
  'Emits an event in this transaction: it is published if and only if the transaction commits. Events with one key are published in order. Answers its id, which is the broker''s message id; a given id is emitted once.';

-- Function file outbox_relay

-- Purpose: what a relay does: takes events, and says what became of them.
-- Index:   those of inbox_claim.sql and inbox_settle.sql; inbox_failed_group, outbox_parked_pkey.

create or replace function turno.outbox_queue() returns integer
language sql
stable
as $$
  select turno.inbox_queue_id('$outbox')
$$;

-- A blocked event keeps its place until a person decides: its time does not come.
create or replace function turno.outbox_never() returns timestamptz
language sql
immutable
as $$
  select timestamptz '9999-01-01 00:00:00+00'
$$;

-- The id of an event, from its item's key. An item that was not written by outbox_emit may have none: it is claimed with the
-- nil id, and the relay sets it aside. A failed cast would fail the claim of all others.
create or replace function turno.outbox_id(key text) returns uuid
language sql
immutable
as $$
  select case
    when key ~ '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$' then key::uuid
    else '00000000-0000-0000-0000-000000000000'::uuid
  end
$$;

-- Whether a key is parked now. Volatile, and not a subquery: a claim waits for its turn, and its own statement does not see
-- what was parked meanwhile. An event of that key would be published.
create or replace function turno.outbox_is_parked(key text) returns boolean
language plpgsql
volatile
as $$
begin
  return outbox_is_parked.key is not null
    and exists (select from turno.outbox_parked p where p.key = outbox_is_parked.key);
end
$$;

-- The token is the caller's choice: the same call repeated is answered the same. A claim that is all of its transaction
-- need not be durable (see inbox_claim_batch). With order, of each key the first one
-- only; without it, all in the order in which they were emitted.
create or replace function turno.outbox_claim(
  relay    text,
  "limit"  integer  default 50,
  lease    interval default '15 seconds',
  in_order boolean  default true,
  token    uuid     default gen_random_uuid(),
  durable  boolean  default true
) returns setof turno.outbox_claimed
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if outbox_claim."limit" is null or outbox_claim."limit" not between 1 and 1000 then
    raise exception 'limit is %, and must be between 1 and 1000', coalesce(outbox_claim."limit"::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Claim fewer at a time, and more often.';
  end if;
  return query
  select
    t.id, turno.outbox_id(t.key), t."group", t.payload, t.pushed_at, t.attempt - 1 - t.abandoned, t.abandoned,
    turno.outbox_is_parked(t."group"), t.expires_at
  from turno.inbox_claim_batch(
    '$outbox', outbox_claim.relay, outbox_claim."limit", outbox_claim.lease, outbox_claim.token, outbox_claim.durable,
    outbox_claim.in_order) t;
end
$$;

comment on function turno.outbox_claim is
  'Claims events for a relay. In order: of each key the first only, until that is settled. Each claim is settled as a whole, with outbox_settle.';

-- All of a claim at once: what was sent, what was refused, and whatever is left goes back, no attempt spent: at once, or
-- after its delay if it is deferred. Those that may have arrived are labelled when they are published again.
create or replace function turno.outbox_settle(
  token    uuid,
  sent     int8multirange,
  refused  bigint[]       default null,
  errors   text[]         default null,
  retry_ins interval[]    default null,
  dead     text[]         default null,  -- for each refused one: null, skip, block or park
  doubtful int8multirange default null,
  archive  boolean        default false,
  request  uuid           default null,
  deferred bigint[]       default null,
  delays   interval[]     default null
) returns turno.outbox_settled
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  b      turno.inbox_batch;
  own    uuid := coalesce(outbox_settle.request, gen_random_uuid());
  hit    int8multirange;
  asked  bigint := turno.inbox_count(outbox_settle.sent) + coalesce(cardinality(outbox_settle.refused), 0);
  events uuid[];
  s      turno.outbox_settled := row(0, 0, 0, 0)::turno.outbox_settled;
begin
  if exists (select from unnest(outbox_settle.delays) d where d < '0' or d > '3660 days') then
    raise exception 'delays must be between 0 and 10 years'
      using errcode = 'invalid_parameter_value', hint = 'Give one delay for each deferred event.';
  end if;
  select * into b
  from turno.inbox_batch t
  where t.token = outbox_settle.token
  for update;
  if not found then
    -- The same call may have been answered before, and its answer lost.
    if exists (
      select from turno.inbox_done d
      where d.request = own
        and d.token = outbox_settle.token) then
      return row(
        turno.inbox_count(outbox_settle.sent), coalesce(cardinality(outbox_settle.refused), 0), 0, 0)::turno.outbox_settled;
    end if;
    return row(0, 0, 0, asked)::turno.outbox_settled;
  end if;

  hit := b.ids * outbox_settle.sent;
  if not isempty(hit) then
    select array_agg(turno.outbox_id(i.key) order by i.id) into events
    from turno.inbox_item i
    where i.ctid = any (array(select p.at from turno.inbox_places(b.lane, hit) p));
    if outbox_settle.archive then
      insert into turno.outbox_archive (id, seq, key, emitted_at, dispatched_at, relay, event)
      select turno.outbox_id(i.key), i.id, i."group", i.pushed_at, clock_timestamp(), b.worker, i.payload
      from turno.inbox_item i
      where i.ctid = any (array(select p.at from turno.inbox_places(b.lane, hit) p));
    end if;
    s.sent := (turno.inbox_complete_batch(array[b.token], array[hit], array[own])).done;
    insert into turno.outbox_sent (at, outcome, "by", ids)
    values (clock_timestamp(), 'dispatched', b.worker, events);
  end if;

  if cardinality(outbox_settle.refused) > 0 then
    insert into turno.outbox_parked (key, id, at)
    select distinct on (i."group") i."group", turno.outbox_id(i.key), clock_timestamp()
    from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
    cross join lateral (
      select *
      from turno.inbox_item t
      where t.lane = b.lane
        and t.id = u.id
      offset 0) i
    where u.dead = 'park'
      and b.ids @> u.id
      and i."group" is not null
    order by i."group", i.id
    on conflict do nothing;
    s.refused := (turno.inbox_fail_batch(
      outbox_settle.refused, array_fill(b.token, array[cardinality(outbox_settle.refused)]), outbox_settle.errors,
      outbox_settle.retry_ins, array(select coalesce(d in ('skip', 'park'), false) from unnest(outbox_settle.dead) d))).done;
    if 'block' = any (outbox_settle.dead) then
      update turno.inbox_item i
      set run_at = turno.outbox_never()
      from unnest(outbox_settle.refused, outbox_settle.dead) u(id, dead)
      where i.lane = b.lane
        and i.id = u.id
        and u.dead = 'block'
        and b.ids @> u.id;
    end if;
  end if;
  s.stale := asked - s.sent - s.refused;

  select * into b
  from turno.inbox_batch t
  where t.token = outbox_settle.token;
  if found then
    s.returned := turno.inbox_count(b.ids);
    update turno.inbox_item i
    set attempts  = i.attempts + turno.inbox_doubt(i.abandoned),
        abandoned = i.abandoned + turno.inbox_doubt(i.abandoned)
    from (
      select i.id
      from unnest(b.ids * outbox_settle.doubtful) r
      cross join lateral generate_series(lower(r), upper(r) - 1) i(id)) d
    where i.lane = b.lane
      and i.id = d.id;
    perform turno.inbox_give_back_batch(a.ids, array_fill(b.token, array[cardinality(a.ids)]))
    from (
      select array_agg(i.id) as ids
      from unnest(b.ids) r
      cross join lateral generate_series(lower(r), upper(r) - 1) i(id)) a;
    if cardinality(outbox_settle.deferred) > 0 then
      update turno.inbox_item i
      set run_at = clock_timestamp() + u.delay
      from unnest(outbox_settle.deferred, outbox_settle.delays) u(id, delay)
      where i.lane = b.lane
        and i.id = u.id
        and u.delay > '0'
        and b.ids @> u.id;
    end if;
  end if;
  return s;
end
$$;

comment on function turno.outbox_settle is
  'Ends a claim: what was sent leaves the outbox, what was refused is tried again or dead, whatever else was claimed goes back, at once or after its delay. A claim that is gone changes nothing, and is answered as stale.';

-- Whoever relays alone takes over at once what the one before it had in flight.
create or replace function turno.outbox_recover() returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.outbox_queue();
  many bigint;
begin
  perform pg_advisory_xact_lock(1953853038, q);
  with ended as (
    update turno.inbox_batch b
    set until = clock_timestamp()
    where b.queue_id = q
      and b.until > clock_timestamp()
    returning b.ids)
  select coalesce(sum(turno.inbox_count(e.ids)), 0) into many
  from ended e;
  if many > 0 then
    update turno.inbox_cursor c
    set expiry = clock_timestamp()
    where c.queue_id = q;
  end if;
  return many;
end
$$;

comment on function turno.outbox_recover is
  'Ends all claims on events at once: for a relay that has just become the only one. Answers how many events were in flight.';

-- Who holds the advisory lock of those that relay alone, as far as the server tells us.
create or replace function turno.outbox_leader(lock_id bigint default 42) returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(nullif(a.application_name, ''), 'somebody') || ' (server process ' || l.pid
    || coalesce(', from ' || host(a.client_addr), '') || ')'
  from pg_locks l
  left join pg_stat_activity a on a.pid = l.pid
  where l.locktype = 'advisory'
    and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.objsubid = 1
    and l.classid::bigint = (outbox_leader.lock_id >> 32) & 4294967295
    and l.objid::bigint = outbox_leader.lock_id & 4294967295
  limit 1
$$;

comment on function turno.outbox_leader is 'Who holds the advisory lock by which one relay at a time works; null if nobody does.';

-- Function file outbox_people

-- Purpose: what people see of the outbox and do with it: counts, lists, dead events revived or discarded.
-- Index:   inbox_failed_key, inbox_failed_group, inbox_item_due, outbox_sent_pkey, outbox_archive_id.

create or replace function turno.outbox_stats() returns turno.outbox_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  q       integer := turno.outbox_queue();
  i       turno.inbox_counts;
  blocked bigint;
begin
  select * into i
  from turno.inbox_stats('$outbox');
  select count(*) into blocked
  from turno.inbox_item t
  where t.lane = q * 4 + 1
    and t.run_at = turno.outbox_never();
  -- Those that were blocked since the states were counted are still counted there.
  blocked := least(blocked, i.scheduled);
  return row(
    i.total, i.pending, i.scheduled - blocked, i.processing, i.completed, i.failed, blocked,
    (select count(*) from turno.outbox_parked), i.oldest_pending)::turno.outbox_counts;
end
$$;

comment on function turno.outbox_stats is
  'How many events are pending, scheduled, being published, dispatched, dead and blocked, and how many keys are parked.';

create or replace function turno.outbox_list(state text, after bigint default null, "limit" integer default 100)
returns setof turno.outbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.outbox_queue();
begin
  if outbox_list.state = 'dispatched' then
    -- Batch by batch, the newest first; a page has whole batches, and begins after the last one's number.
    return query
    with page as (
      select s.*, sum(cardinality(s.ids)) over (order by s.n desc) - cardinality(s.ids) as before
      from (
        select *
        from turno.outbox_sent t
        where t.n < coalesce(outbox_list.after, 9223372036854775807)
          and t.outcome = 'dispatched'
        order by t.n desc
        limit outbox_list."limit") s)
    select p.n, e.id, 'dispatched', null::text, null::json, 0, 0, p."by", null::timestamptz, p.at, null::jsonb
    from page p
    cross join lateral unnest(p.ids) with ordinality e(id, place)
    where p.before < outbox_list."limit"
    order by p.n desc, e.place desc;
  elsif outbox_list.state = 'blocked' then
    return query
    select
      i.id, turno.outbox_id(i.key), 'blocked', i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer,
      null::text, i.pushed_at, null::timestamptz, i.errors
    from turno.inbox_item i
    where i.lane = q * 4 + 1
      and i.run_at = turno.outbox_never()
      and i.id > coalesce(outbox_list.after, 0)
    order by i.id
    limit outbox_list."limit";
  elsif outbox_list.state = 'scheduled' then
    return query
    select
      i.id, turno.outbox_id(i.key), 'scheduled', i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer,
      null::text, i.pushed_at, i.run_at, i.errors
    from turno.inbox_item i
    where i.lane = q * 4 + 1
      and i.run_at > clock_timestamp()
      and i.run_at < turno.outbox_never()
      and i.id > coalesce(outbox_list.after, 0)
    order by i.id
    limit outbox_list."limit";
  elsif outbox_list.state in ('pending', 'processing', 'dead') then
    return query
    select
      i.id, turno.outbox_id(i.key), outbox_list.state, i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned,
      i.worker, i.pushed_at, i.at, i.errors
    from turno.inbox_list(
      '$outbox', case outbox_list.state when 'dead' then 'failed' else outbox_list.state end, outbox_list.after,
      outbox_list."limit") i;
  else
    raise exception 'state is %, and must be pending, scheduled, processing, dispatched, dead or blocked',
      coalesce(quote_literal(outbox_list.state), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name one of them.';
  end if;
end
$$;

comment on function turno.outbox_list is
  'One page of the events that are in one state, in the order of their emission; dispatched ones newest first, batch by batch.';

create or replace function turno.outbox_find(id uuid) returns setof turno.outbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.outbox_queue();
begin
  return query
  select
    f.id, turno.outbox_id(f.key), 'dead', f."group", f.payload, (f.attempts - f.abandoned)::integer, f.abandoned::integer, f.worker,
    f.pushed_at, f.failed_at, f.errors
  from turno.inbox_failed f
  where f.lane / 4 = q
    and f.key = outbox_find.id::text;
  if found then
    return;
  end if;
  -- Nothing leaves the outbox before it was emitted, and the id says when that was; clocks may differ by a little.
  return query
  select
    coalesce(a.seq, s.n), outbox_find.id, s.outcome, a.key, a.event, 0, 0, s."by", a.emitted_at, s.at, null::jsonb
  from turno.outbox_sent s
  left join turno.outbox_archive a on a.id = outbox_find.id
  where s.ids @> array[outbox_find.id]
    and s.at > to_timestamp(
      case when substr(outbox_find.id::text, 15, 1) = '7'
        then ('x' || substr(replace(outbox_find.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0
        else 0
      end) - interval '1 day'
  order by s.n desc
  limit 1;
  if found then
    return;
  end if;
  return query
  select
    i.id, turno.outbox_id(i.key),
    case
      when i.run_at = turno.outbox_never() then 'blocked'
      when b.worker is not null then 'processing'
      when i.run_at > clock_timestamp() and i.run_at < 'infinity' then 'scheduled'
      else 'pending'
    end,
    i."group", i.payload, (i.attempts - i.abandoned)::integer, i.abandoned::integer, b.worker, i.pushed_at,
    coalesce(b.claimed_at, nullif(nullif(i.run_at, 'infinity'), turno.outbox_never()), i.pushed_at), i.errors
  from turno.inbox_item i
  left join lateral (
    select t.worker, t.claimed_at
    from turno.inbox_batch t
    where t.queue_id = q
      and t.lane = i.lane
      and t.ids @> i.id
      and t.until > clock_timestamp()
    limit 1) b on true
  where i.lane = q * 4 + 1
    and i.key = outbox_find.id::text
  limit 1;
end
$$;

comment on function turno.outbox_find is 'One event by its id, wherever it is; one that is still waiting is searched for one by one.';

-- Events of one parked key belong together: they are revived together, in their order.
create or replace function turno.outbox_requeue(
  ids     uuid[]  default null,
  "limit" integer default 10000,
  "user"  text    default null,
  reason  text    default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    integer := turno.outbox_queue();
  seqs bigint[];
  many bigint;
  got  bigint;
begin
  perform turno.deed_check(outbox_requeue."user", outbox_requeue.reason);
  seqs := array(
    select f.id
    from turno.inbox_failed f
    where f.lane / 4 = q
      and (outbox_requeue.ids is null or f.key = any (outbox_requeue.ids::text[]))
    order by f.failed_at
    limit outbox_requeue."limit");
  with freed as (
    delete from turno.outbox_parked p
    using (
      select distinct f."group"
      from turno.inbox_failed f
      where f.id = any (seqs)) g
    where p.key = g."group"
    returning p.key)
  select seqs || array_agg(f.id) into seqs
  from freed p
  join turno.inbox_failed f on f.lane / 4 = q and f."group" = p.key;
  many := case when seqs = '{}' then 0 else turno.inbox_revive(q, seqs, cardinality(seqs)) end;

  with revived as (
    update turno.inbox_item i
    set run_at   = clock_timestamp(),
        attempts = 0,
        abandoned = 0
    where i.ctid = any (array(
      select t.ctid
      from turno.inbox_item t
      where t.lane = q * 4 + 1
        and t.run_at = turno.outbox_never()
        and (outbox_requeue.ids is null or t.key = any (outbox_requeue.ids::text[]))
      limit outbox_requeue."limit"
      for update skip locked))
    returning 1)
  select count(*) into got
  from revived;
  if got > 0 then
    perform turno.inbox_call(q);
  end if;
  perform turno.deed_record('outbox', 'requeued', '', many + got, outbox_requeue."user", outbox_requeue.reason);
  return many + got;
end
$$;

comment on function turno.outbox_requeue is
  'Revives dead and blocked events, those with the ids or all, with all their attempts before them. What was parked behind one comes with it. Answers how many. The user and the reason go into the history.';

create or replace function turno.outbox_discard(
  ids    uuid[],
  "user" text default current_user,
  reason text default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q      integer := turno.outbox_queue();
  dead   uuid[];
  blocked uuid[];
  keys   text[];
  groups text[];
begin
  perform turno.check_name('user', outbox_discard."user", 255);
  perform turno.deed_check(outbox_discard."user", outbox_discard.reason);
  with gone as (
    delete from turno.inbox_failed f
    where f.lane / 4 = q
      and f.key = any (outbox_discard.ids::text[])
    returning f.key, f."group")
  select array_agg(turno.outbox_id(g.key)), array_agg(g."group") filter (where g."group" is not null) into dead, keys
  from gone g;
  with gone as (
    delete from turno.inbox_item i
    where i.ctid = any (array(
      select t.ctid
      from turno.inbox_item t
      where t.lane = q * 4 + 1
        and t.run_at = turno.outbox_never()
        and t.key = any (outbox_discard.ids::text[])
      for update))
    returning i.key, i."group")
  select array_agg(turno.outbox_id(g.key)), array_agg(g."group") filter (where g."group" is not null) into blocked, groups
  from gone g;
  if dead is null and blocked is null then
    return 0;
  end if;
  insert into turno.inbox_tally (queue_id, items, timed, failed)
  values (
    q, -coalesce(cardinality(blocked), 0), -coalesce(cardinality(blocked), 0), -coalesce(cardinality(dead), 0));
  update turno.inbox_key k
  set done_at = clock_timestamp()
  where k.queue_id = q
    and k.key = any ((dead || blocked)::text[]);
  insert into turno.outbox_sent (at, outcome, "by", ids)
  values (clock_timestamp(), 'discarded', outbox_discard."user", dead || blocked);
  -- A key of which nothing is dead any more goes on.
  delete from turno.outbox_parked p
  where p.key = any (keys)
    and not exists (
      select from turno.inbox_failed f
      where f.lane / 4 = q
        and f."group" = p.key);
  if groups is not null then
    perform turno.inbox_free(null, array_fill(q, array[cardinality(groups)]), groups);
  end if;
  perform turno.deed_record(
    'outbox', 'discarded', '', coalesce(cardinality(dead), 0) + coalesce(cardinality(blocked), 0),
    outbox_discard."user", outbox_discard.reason);
  return coalesce(cardinality(dead), 0) + coalesce(cardinality(blocked), 0);
end
$$;

comment on function turno.outbox_discard is
  'Gives dead or blocked events up: they are never published. What was blocked behind one goes on; what was parked waits to be requeued. Answers how many. The user and the reason go into the history.';

-- Function file seen

-- Purpose: the consumer's side of at-least-once: true the first time only, in the consumer's own transaction.
-- Index:   seen_pkey.

create or replace function turno.seen(consumer text, event_id uuid) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform turno.check_name('consumer', seen.consumer, 255);
  if seen.event_id is null then
    raise exception 'event_id is null'
      using errcode = 'invalid_parameter_value', hint = 'Give the message id of what was delivered.';
  end if;
  -- Whoever is just handling the same event in another transaction is waited for: it may roll back.
  insert into turno.seen (consumer, event_id, at)
  values (seen.consumer, seen.event_id, clock_timestamp())
  on conflict do nothing;
  return found;
end
$$;

comment on function turno.seen is
  'True if this consumer sees the event for the first time, and remembers it together with what else this transaction does: handle the event only then.';

-- Function file once_begin

-- Purpose: who may do the work of a request, and what everybody else is told.
-- Index:   once_pkey; once_scope for a quota. Other plans are ruled out (plans.sql).

-- How long it is remembered that nobody knows how a run ended, if its answer would have been kept for less.
create or replace function turno.once_unknown_for() returns interval
language sql
immutable
as $$
  select interval '1 day'
$$;

-- What a row means now: in_flight, done, unknown, or gone (as if it were not there).
create or replace function turno.once_state(o turno.once) returns text
language sql
volatile
as $$
  select case
    when o.state = 'done' then case when o.until > clock_timestamp() then 'done' else 'gone' end
    when o.state = 'running' then
      case
        when o.until > clock_timestamp() then 'in_flight'
        when o.until + greatest(o.ttl, turno.once_unknown_for()) > clock_timestamp() then 'unknown'
        else 'gone'
      end
    else 'gone'
  end
$$;

create or replace function turno.once_told(o turno.once, outcome text) returns turno.once_outcome
language sql
volatile
as $$
  select row(
    outcome, o.key,
    -- The token is a right: it is told to whoever has the claim, and with unknown to whoever has to decide.
    case when outcome in ('fresh', 'unknown') then o.token end,
    o.attempt,
    case when outcome = 'replay' then o.answer end,
    o.began_at, o.until, greatest(o.until - clock_timestamp(), '0'), o.worker,
    case when outcome in ('fresh', 'unknown') then o.key || '@' || o.token end)::turno.once_outcome
$$;

create or replace function turno.once_check(
  key         text,
  fingerprint text,
  lease       interval,
  ttl         interval,
  unknown     text,
  worker      text,
  scope       text,
  quota       integer
) returns void
language plpgsql
immutable
as $$
begin
  perform turno.check_name('key', key, 255);
  if fingerprint is not null then perform turno.check_name('fingerprint', fingerprint, 255); end if;
  if worker is not null then perform turno.check_name('worker', worker, 255); end if;
  if scope is not null then perform turno.check_name('scope', scope, 255); end if;
  if not coalesce(lease between '1 millisecond' and '24 hours', false) then
    raise exception 'lease is %, and must be between 1 ms and 24 hours', coalesce(lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter one, and extend it.';
  end if;
  if not coalesce(ttl between '0' and '3660 days', false) then
    raise exception 'ttl is %, and must be between 0 and 10 years', coalesce(ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give 0 to keep no answer, or say 1 day.';
  end if;
  if unknown is null or unknown not in ('refuse', 'rerun') then
    raise exception 'unknown is %, and must be refuse or rerun', coalesce(quote_literal(unknown), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave it out to refuse.';
  end if;
  if quota is not null and (quota < 1 or quota > 1000000 or scope is null) then
    raise exception 'quota is %, and must be between 1 and 1000000, with a scope', quota
      using errcode = 'invalid_parameter_value', hint = 'Say whose quota it is, or leave both out.';
  end if;
end
$$;

-- Whether there is surely nothing wrong with what is asked: the quick look before once_check says what is.
create or replace function turno.once_is_plain(
  key         text,
  fingerprint text,
  lease       interval,
  ttl         interval,
  unknown     text,
  worker      text,
  scope       text,
  quota       integer
) returns boolean
language sql
immutable
as $$
  select coalesce(
    octet_length(key) between 1 and 255
    and octet_length(coalesce(fingerprint, '-')) between 1 and 255
    and octet_length(coalesce(worker, '-')) between 1 and 255
    -- One look at all of them, and no counting: a pattern that counts to 255 costs more than everything else here.
    and key || coalesce(fingerprint, '') || coalesce(worker, '') !~ '[^ -~]'
    and lease >= '1 millisecond' and lease <= '24 hours'
    and ttl >= '0' and ttl <= '3660 days'
    and unknown in ('refuse', 'rerun')
    and scope is null and quota is null, false)
$$;

-- Whether a scope has as many live keys as it may.
create or replace function turno.once_is_full(scope text, quota integer) returns boolean
language sql
volatile
as $$
  select count(*) >= quota
  from (
    select
    from turno.once o
    where o.scope = once_is_full.scope
      and o.sweep_at > clock_timestamp()
      and turno.once_state(o) <> 'gone'
    limit quota) live
$$;

create or replace function turno.once_begin(
  key         text,
  fingerprint text     default null,
  lease       interval default '30 seconds',
  ttl         interval default '1 day',
  unknown     text     default 'refuse',
  worker      text     default null,
  waits       boolean  default false,
  scope       text     default null,
  quota       integer  default null,
  request     uuid     default null
) returns turno.once_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  o   turno.once;
  now text;
begin
  if not turno.once_is_plain(
    once_begin.key, once_begin.fingerprint, once_begin.lease, once_begin.ttl, once_begin.unknown, once_begin.worker,
    once_begin.scope, once_begin.quota) then
    perform turno.once_check(
      once_begin.key, once_begin.fingerprint, once_begin.lease, once_begin.ttl, once_begin.unknown, once_begin.worker,
      once_begin.scope, once_begin.quota);
  end if;
  -- Each turn but the last was lost to somebody else, who has changed the row meanwhile.
  for turn in 1..100 loop
    select * into o
    from turno.once t
    where t.key = once_begin.key;
    now := case when found then turno.once_state(o) else 'gone' end;
    if now = 'in_flight' and o.request = once_begin.request then
      -- The answer to the same question was lost.
      return turno.once_told(o, 'fresh');
    end if;
    if now <> 'gone' and o.fingerprint <> once_begin.fingerprint then
      return turno.once_told(o, 'mismatch');
    end if;
    if now = 'done' then
      return turno.once_told(o, 'replay');
    end if;
    if now = 'in_flight' then
      -- Who waits looks again when the lease is over: until then it is notified, and for ten seconds at the least.
      if not once_begin.waits
         or o.waited_until >= greatest(o.until, clock_timestamp() + interval '5 seconds') then
        return turno.once_told(o, 'in_flight');
      end if;
      -- Whoever answers is told to call. Not if the answer is just being written: that may take a transaction's while.
      perform
      from turno.once t
      where t.key = once_begin.key
      for no key update skip locked;
      if not found then
        -- Without a mark it has to look again soon.
        o.until := least(o.until, clock_timestamp() + interval '100 milliseconds');
        return turno.once_told(o, 'in_flight');
      end if;
      update turno.once t
      set waited_until = greatest(t.until, clock_timestamp() + interval '10 seconds')
      where t.key = once_begin.key
        and t.token = o.token
        and t.state = 'running';
      if found then
        return turno.once_told(o, 'in_flight');
      end if;
      continue;
    end if;
    if now = 'unknown' and once_begin.unknown = 'refuse' then
      return turno.once_told(o, 'unknown');
    end if;
    if once_begin.quota is not null and now = 'gone' and turno.once_is_full(once_begin.scope, once_begin.quota) then
      return row('over_quota', once_begin.key, null, null, null, null, null, null, null, null)::turno.once_outcome;
    end if;
    if o.key is null then
      insert into turno.once (
        key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, sweep_at)
      values (
        once_begin.key, once_begin.fingerprint, 'running',
        -- Tokens follow the clock, and are above those of every purged row.
        greatest(turno.lock_tick(), (select f.token + 1 from turno.lock_floor f)), 1,
        coalesce(once_begin.request, gen_random_uuid()), once_begin.worker, clock_timestamp(),
        clock_timestamp() + once_begin.lease, once_begin.ttl, once_begin.scope,
        clock_timestamp() + once_begin.lease + once_begin.ttl)
      on conflict do nothing
      returning * into o;
      if found then
        return turno.once_told(o, 'fresh');
      end if;
      continue;
    end if;
    perform
    from turno.once t
    where t.key = once_begin.key
    for update skip locked;
    if not found then
      -- The same request, sent again while its first call ends, has its claim in a moment.
      if turn <= 20 then
        perform pg_sleep(0.002);
        continue;
      end if;
      -- Its answer is just being written, late, in another transaction; or it is just being taken, or swept.
      o.until := clock_timestamp();
      return turno.once_told(o, 'in_flight');
    end if;
    update turno.once t
    set fingerprint  = once_begin.fingerprint,
        state        = 'running',
        token        = greatest(t.token + 1, turno.lock_tick()),
        -- A run that was given back does not count, and a new life begins with one.
        attempt      = case when now = 'unknown' then t.attempt + 1 when t.state = 'released' then t.attempt else 1 end,
        request      = coalesce(once_begin.request, gen_random_uuid()),
        worker       = once_begin.worker,
        began_at     = clock_timestamp(),
        until        = clock_timestamp() + once_begin.lease,
        ttl          = once_begin.ttl,
        waited_until = null,
        scope        = once_begin.scope,
        sweep_at     = clock_timestamp() + once_begin.lease + once_begin.ttl,
        answer       = null
    where t.key = once_begin.key
      and t.token = o.token
      and t.state = o.state
      and t.until = o.until
    returning * into o;
    if found then
      return turno.once_told(o, 'fresh');
    end if;
  end loop;
  raise exception 'key % changes hands all the time', quote_literal(once_begin.key)
    using errcode = 'lock_not_available', hint = 'Try again in a moment.';
end
$$;

comment on function turno.once_begin is
  'Begins the work of a request, in a transaction of its own: fresh (do it, then once_complete with the claim), replay (its answer), in_flight, mismatch (same key, other content), unknown (an earlier run vanished half-way) or over_quota. A ttl of 0 keeps no answer.';

-- What arrived together: most keys are new, and are inserted together; the others are looked at one by one. Each has its
-- own request, by which its answer is known.
create or replace function turno.once_begin_batch(
  keys         text[],
  fingerprints text[],
  leases       interval[],
  ttls         interval[],
  unknowns     text[],
  workers      text[],
  waits        boolean[],
  scopes       text[],
  quotas       integer[],
  requests     uuid[]
) returns table (request uuid, answer turno.once_outcome)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- Nobody else's transaction may keep all of them waiting: then each asks alone.
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  many  integer   := cardinality(once_begin_batch.keys);
  -- Keys that have no row, and keys that are answered.
  new   boolean[] := array_fill(false, array[many]);
  done  boolean[] := array_fill(false, array[many]);
  rest  integer   := many;
  fresh uuid[]    := '{}';
  told  record;
begin
  -- Answers that are there, and nothing to be written.
  for told in
    select a.request, a.place, o.key is null as new,
      case
        when turno.once_state(o) = 'done'
          and (o.fingerprint = a.fingerprint or o.fingerprint is null or a.fingerprint is null)
          then turno.once_told(o, 'replay')
      end as answer
    from unnest(once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.requests)
      with ordinality a(key, fingerprint, request, place)
    left join turno.once o on o.key = a.key
  loop
    if told.new then
      new[told.place] := true;
    -- A row is null if all of it is, and not null only if none of it is.
    elsif not (told.answer is null) then
      done[told.place] := true;
      rest := rest - 1;
      request := told.request;
      answer := told.answer;
      return next;
    end if;
  end loop;
  if rest = 0 then
    return;
  end if;

  begin
    for told in
      insert into turno.once as t (
        key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, sweep_at)
      select distinct on (a.key)
        a.key, a.fingerprint, 'running',
        greatest(turno.lock_tick(), (select f.token + 1 from turno.lock_floor f)), 1, a.request, a.worker, clock_timestamp(),
        clock_timestamp() + a.lease, a.ttl, clock_timestamp() + a.lease + a.ttl
      from unnest(
        once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.leases, once_begin_batch.ttls,
        once_begin_batch.unknowns, once_begin_batch.workers, once_begin_batch.scopes, once_begin_batch.quotas,
        once_begin_batch.requests)
        with ordinality a(key, fingerprint, lease, ttl, unknown, worker, scope, quota, request, place)
      where new[a.place]
        and turno.once_is_plain(a.key, a.fingerprint, a.lease, a.ttl, a.unknown, a.worker, a.scope, a.quota)
      -- In order of their keys: two batches with the same ones must not wait for each other.
      order by a.key, a.place
      on conflict do nothing
      returning t.*
    loop
      fresh := fresh || told.request;
      request := told.request;
      answer := row(
        'fresh', told.key, told.token, told.attempt, null, told.began_at, told.until, told.until - clock_timestamp(),
        told.worker, told.key || '@' || told.token)::turno.once_outcome;
      return next;
    end loop;
    if cardinality(fresh) < rest then
      for told in
        select a.*
        from unnest(
          once_begin_batch.keys, once_begin_batch.fingerprints, once_begin_batch.leases, once_begin_batch.ttls,
          once_begin_batch.unknowns, once_begin_batch.workers, once_begin_batch.waits, once_begin_batch.scopes,
          once_begin_batch.quotas, once_begin_batch.requests)
          with ordinality a(key, fingerprint, lease, ttl, unknown, worker, waits, scope, quota, request, place)
        where not done[a.place]
          and a.request <> all (fresh)
        order by a.key, a.place
      loop
        request := told.request;
        answer := turno.once_begin(
          key => told.key, fingerprint => told.fingerprint, lease => told.lease, ttl => told.ttl,
          unknown => told.unknown, worker => told.worker, waits => told.waits, scope => told.scope,
          quota => told.quota, request => told.request);
        return next;
      end loop;
    end if;
  exception when lock_not_available then
    -- Rolled back: what was said since the block began is not so. Of two answers, the later one counts.
    for told in
      select r.request
      from unnest(once_begin_batch.requests) with ordinality r(request, place)
      where not done[r.place]
    loop
      request := told.request;
      answer := row('later', null, null, null, null, null, null, null, null, null)::turno.once_outcome;
      return next;
    end loop;
  end;
end
$$;

comment on function turno.once_begin_batch is
  'Many begins at once, each with its own request and an answer of its own (of two, the later one counts); outcome later: ask that one alone.';

-- Function file once_settle

-- Purpose: the end of a run: its answer, or that it was given back; and that it still goes on.
-- Index:   once_pkey.

-- The key and the token of a claim, as once_begin answered it.
create or replace function turno.once_claim(claim text, out key text, out token bigint)
language plpgsql
immutable
as $$
begin
  -- From the right: a key may have an @ of its own.
  if claim is null or claim !~ '@[0-9]{1,18}$' then
    raise exception 'claim is %, and looks like KEY@TOKEN', coalesce(quote_literal(left(claim, 100)), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give it as once_begin answered it.';
  end if;
  key := regexp_replace(claim, '@[0-9]+$', '');
  token := substring(claim from '@([0-9]+)$')::bigint;
end
$$;

-- Calls those who wait for the answer, if any do.
create or replace function turno.once_call(o turno.once) returns void
language plpgsql
as $$
begin
  if o.waited_until > clock_timestamp() then
    perform pg_notify('turno_once', o.key);
  end if;
end
$$;

create or replace function turno.once_check_ttl(ttl interval) returns void
language plpgsql
immutable
as $$
begin
  if ttl is not null and not ttl between '0' and '3660 days' then
    raise exception 'ttl is %, and must be between 0 and 10 years', ttl
      using errcode = 'invalid_parameter_value',
        hint = 'Give 0 to keep no answer, or leave it out for what was said at the beginning.';
  end if;
end
$$;

-- Notes that somebody came too late: another has begun, and there is nothing else to do.
create or replace function turno.once_stale(key text, token bigint) returns void
language sql
as $$
  update turno.once t
  set late = t.late + 1
  where t.key = once_stale.key
    and t.token <> once_stale.token
$$;

-- Ends a run. True if it is ended so now, and also if it was before: the answer to that may have been lost.
create or replace function turno.once_settle(
  key     text,
  token   bigint,
  state   text,
  answer  json,
  ttl     interval
) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  o turno.once;
begin
  update turno.once t
  set state    = once_settle.state,
      until    = clock_timestamp() + case once_settle.state when 'done' then coalesce(once_settle.ttl, t.ttl) else '0' end,
      -- Far enough already, unless the work took longer or its answer is kept longer than was said.
      sweep_at = greatest(t.sweep_at, clock_timestamp() + coalesce(once_settle.ttl, t.ttl)),
      answer   = once_settle.answer
  where t.key = once_settle.key
    and t.token = once_settle.token
    and t.state = 'running'
  returning * into o;
  if found then
    perform turno.once_call(o);
    return true;
  end if;
  perform
  from turno.once t
  where t.key = once_settle.key
    and t.token = once_settle.token
    and t.state = once_settle.state;
  return found;
end
$$;

create or replace function turno.once_complete(
  claim  text,
  answer json     default null,
  ttl    interval default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c record;
begin
  perform turno.once_check_ttl(once_complete.ttl);
  select * into c
  from turno.once_claim(once_complete.claim);
  if not turno.once_settle(c.key, c.token, 'done', once_complete.answer, once_complete.ttl) then
    raise exception 'claim % is stale: somebody else has begun the work, or it was given back', quote_literal(once_complete.claim)
      using errcode = 'TN410', hint = 'Roll back: the answer that counts is another''s. Begin again to get it.';
  end if;
end
$$;

comment on function turno.once_complete is
  'Ends the work of a request with its answer, in this transaction: raises TN410 if the claim is stale, so that its effects go with it. Without an answer it is known that the work is done, and no more. ttl: how long the answer is kept, if not as long as once_begin said.';

-- What arrived together, each with an outcome of its own: done, stale, or later (ask that one alone).
create or replace function turno.once_complete_batch(
  keys    text[],
  tokens  bigint[],
  answers text[],
  ttls    interval[]
) returns table (place bigint, outcome text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  done  boolean[] := array_fill(false, array[cardinality(once_complete_batch.keys)]);
  ended record;
begin
  perform turno.once_check_ttl(t.ttl)
  from unnest(once_complete_batch.ttls) t(ttl)
  where t.ttl is not null;
  for ended in
    with asked as (
      select distinct on (a.key) a.*
      from unnest(
        once_complete_batch.keys, once_complete_batch.tokens, once_complete_batch.answers, once_complete_batch.ttls)
        with ordinality a(key, token, answer, ttl, place)
      order by a.key, a.place),
    running as materialized (
      select a.*
      from asked a
      join turno.once k on k.key = a.key
      where k.token = a.token
        and k.state = 'running'
      for no key update of k skip locked)
    update turno.once t
    set state    = 'done',
        until    = clock_timestamp() + coalesce(r.ttl, t.ttl),
        sweep_at = greatest(t.sweep_at, clock_timestamp() + coalesce(r.ttl, t.ttl)),
        answer   = r.answer::json
    from running r
    where t.key = r.key
    returning r.place, t.key, t.waited_until
  loop
    done[ended.place] := true;
    place := ended.place;
    outcome := 'done';
    if ended.waited_until > clock_timestamp() then
      perform pg_notify('turno_once', ended.key);
    end if;
    return next;
  end loop;

  for i in 1..cardinality(once_complete_batch.keys) loop
    continue when done[i];
    place := i;
    perform
    from turno.once t
    where t.key = once_complete_batch.keys[i]
    for no key update skip locked;
    if not found and exists (select from turno.once t where t.key = once_complete_batch.keys[i]) then
      outcome := 'later';
    elsif turno.once_settle(
      once_complete_batch.keys[i], once_complete_batch.tokens[i], 'done', once_complete_batch.answers[i]::json,
      once_complete_batch.ttls[i]) then
      outcome := 'done';
    else
      perform turno.once_stale(once_complete_batch.keys[i], once_complete_batch.tokens[i]);
      outcome := 'stale';
    end if;
    return next;
  end loop;
end
$$;

comment on function turno.once_complete_batch is
  'Many completions at once, each with an outcome of its own: done or stale; later: ask that one alone.';

create or replace function turno.once_release(
  claim   text,
  unknown boolean default false
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c record;
  o turno.once;
begin
  select * into c
  from turno.once_claim(once_release.claim);
  if once_release.unknown then
    -- As if its time were up: what it did, nobody knows.
    update turno.once t
    set until = least(t.until, clock_timestamp())
    where t.key = c.key
      and t.token = c.token
      and t.state = 'running'
    returning * into o;
    if found then
      perform turno.once_call(o);
      return true;
    end if;
  elsif turno.once_settle(c.key, c.token, 'released', null, null) then
    return true;
  end if;
  perform turno.once_stale(c.key, c.token);
  return false;
end
$$;

comment on function turno.once_release is
  'Gives a claim back: nothing was done, and the next one begins afresh. With unknown: something may have been done. False if the claim is stale.';

create or replace function turno.once_extend(
  claim text,
  lease interval default '30 seconds'
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c record;
begin
  if not coalesce(once_extend.lease between '1 millisecond' and '24 hours', false) then
    raise exception 'lease is %, and must be between 1 ms and 24 hours', coalesce(once_extend.lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Extend it again before it ends.';
  end if;
  select * into c
  from turno.once_claim(once_extend.claim);
  -- Also after its time: nobody else has begun meanwhile.
  update turno.once t
  set until    = greatest(t.until, clock_timestamp() + once_extend.lease),
      sweep_at = greatest(t.sweep_at, clock_timestamp() + once_extend.lease)
  where t.key = c.key
    and t.token = c.token
    and t.state = 'running';
  return found;
end
$$;

comment on function turno.once_extend is
  'Says that the work still goes on: the claim lasts for lease from now, or as long as it did. False if it is stale.';

-- Function file once_people

-- Purpose: what people see of requests, and how they decide what is unknown.
-- Index:   once_pkey, once_open.

create or replace function turno.once_shown(o turno.once) returns turno.once_view
language sql
volatile
as $$
  select row(
    o.key, turno.once_state(o), o.key || '@' || o.token, o.attempt, o.fingerprint, o.worker, o.scope, o.began_at,
    o.until, o.late, o.answer)::turno.once_view
$$;

create or replace function turno.once_status(key text) returns setof turno.once_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform turno.check_name('key', once_status.key, 255);
  return query
    select (turno.once_shown(o)).*
    from turno.once o
    where o.key = once_status.key
      and turno.once_state(o) <> 'gone';
end
$$;

comment on function turno.once_status is
  'What is known of a key: in_flight, done or unknown, with its answer; no row if nothing is.';

-- Answers are left out: a page of them may be large.
create or replace function turno.once_list(
  state   text    default null,
  prefix  text    default '',
  after   text    default '',
  "limit" integer default 100
) returns setof turno.once_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  page integer := least(greatest(coalesce(once_list."limit", 100), 1), 1000);
begin
  if once_list.state is not null and once_list.state not in ('in_flight', 'done', 'unknown') then
    raise exception 'state is %, and must be in_flight, done or unknown', quote_literal(once_list.state)
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for all.';
  end if;
  -- Kept answers may be millions, and what is open a few: these are found by an index of their own.
  if once_list.state in ('in_flight', 'unknown') then
    return query
      select
        o.key, s.state, o.key || '@' || o.token, o.attempt, o.fingerprint, o.worker, o.scope, o.began_at, o.until, o.late,
        null::json
      from turno.once o
      cross join lateral (select turno.once_state(o) as state) s
      where o.state = 'running'
        and o.key > coalesce(once_list.after, '')
        and o.key >= coalesce(once_list.prefix, '')
        and starts_with(o.key, coalesce(once_list.prefix, ''))
        and s.state = once_list.state
      order by o.key
      limit page;
    return;
  end if;
  return query
    select
      o.key, s.state, o.key || '@' || o.token, o.attempt, o.fingerprint, o.worker, o.scope, o.began_at, o.until, o.late,
      null::json
    from turno.once o
    cross join lateral (select turno.once_state(o) as state) s
    where o.key > coalesce(once_list.after, '')
      and o.key >= coalesce(once_list.prefix, '')
      and starts_with(o.key, coalesce(once_list.prefix, ''))
      and s.state <> 'gone'
      and (once_list.state is null or s.state = once_list.state)
    order by o.key
    limit page;
end
$$;

comment on function turno.once_list is
  'A page of the keys whose requests are in flight, done or unknown, in order; the next page begins after the last key of this one. Without the answers.';

create or replace function turno.once_forget(
  key    text,
  "user" text default null,
  reason text default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  high bigint;
begin
  perform turno.check_name('key', once_forget.key, 255);
  perform turno.deed_check(once_forget."user", once_forget.reason);
  delete from turno.once o
  where o.key = once_forget.key
    and turno.once_state(o) in ('done', 'unknown')
  returning o.token into high;
  -- Whoever begins next is above it, though the row is gone.
  update turno.lock_floor f
  set token = high
  where f.token < high;
  perform turno.deed_record(
    'once', 'forgotten', once_forget.key, (high is not null)::integer, once_forget."user", once_forget.reason);
  return high is not null;
end
$$;

comment on function turno.once_forget is
  'Forgets a key whose request is done or unknown, for a person: whoever asks next does the work (again). False if there is nothing to forget, or the work is in flight. The user and the reason go into the history.';

-- Function file schedule

-- Purpose: each tick of a schedule is pushed once, whatever number of instances run it.
-- Index:   schedule_pkey.

-- A schedule that is new begins now: it has no past to catch up with.
create or replace function turno.schedule_state(name text, out now timestamptz, out last timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  select s.last into schedule_state.last
  from turno.schedule s
  where s.name = schedule_state.name;
  if not found then
    perform turno.check_name('schedule', schedule_state.name, 255);
    insert into turno.schedule as s (name, last)
    values (schedule_state.name, clock_timestamp())
    on conflict (name) do nothing;
    select s.last into schedule_state.last
    from turno.schedule s
    where s.name = schedule_state.name;
  end if;
  schedule_state.now := clock_timestamp();
end
$$;

comment on function turno.schedule_state is 'The clock, and the last tick of a schedule; a new one begins now.';

-- The row is the guard: whoever moves it on pushes, in the same transaction. Without a payload, the tick is passed over.
create or replace function turno.schedule_tick(
  name         text,
  tick         timestamptz,
  queue        text,
  payload      json,
  key          text        default null,
  priority     integer     default 1,
  delay        interval    default null,
  run_at       timestamptz default null,
  "group"      text        default null,
  max_attempts integer     default 5,
  max_payload  integer     default 1048576,
  out ours     boolean,
  out id       bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update turno.schedule s
  set last = schedule_tick.tick
  where s.name = schedule_tick.name
    and s.last < schedule_tick.tick;
  schedule_tick.ours := found;
  if schedule_tick.ours and schedule_tick.payload is not null then
    select p.id into schedule_tick.id
    from turno.inbox_push(
      schedule_tick.queue, schedule_tick.payload, schedule_tick.key, schedule_tick.priority, schedule_tick.delay,
      schedule_tick.run_at, schedule_tick."group", schedule_tick.max_attempts, null, schedule_tick.max_payload) p;
  end if;
end
$$;

comment on function turno.schedule_tick is
  'Moves a schedule on to a tick and pushes its item, in one step; ours is false if another instance did so before.';

-- Function file plans

-- Purpose: the plans of the functions of inbox, outbox and once are the same whatever the statistics say, or do not say yet: along the
--          indexes, row by row. What is called from inside inherits it from the public function around it.
-- Index:   all of them.

do $$
declare
  f regprocedure;
begin
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and p.proname ~ '^(inbox|outbox|once)_'
      and p.prosecdef
      -- Those in SQL only pass their arguments on.
      and p.prolang = (select l.oid from pg_language l where l.lanname = 'plpgsql')
  loop
    execute format(
      'alter function %s set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off '
      'set enable_mergejoin = off set enable_bitmapscan = off set jit = off', f);
  end loop;
end
$$;

-- Function file adopt_check

-- Purpose: which table and columns are meant. Every name that goes into a generated statement passes here first,
--          and comes out as the catalogue writes it.
-- Index:   none.

-- By its plain name, however odd, or as SQL would write it, with a schema or in quotes. Seen from the caller's own
-- search_path: therefore it sets none, and names everything in full.
create or replace function turno.adopt_table("table" text) returns regclass
language plpgsql
stable
as $$
declare
  t regclass;
begin
  perform turno.check_name('table', adopt_table."table", 255);
  t := pg_catalog.to_regclass(pg_catalog.quote_ident(adopt_table."table"));
  if t is null then
    begin
      t := pg_catalog.to_regclass(adopt_table."table");
    exception
      -- It is no name in SQL's eyes, so it is the name of no table.
      when syntax_error_or_access_rule_violation or invalid_parameter_value or feature_not_supported then null;
    end;
  end if;
  if t is null then
    raise exception 'table % does not exist', adopt_table."table"
      using errcode = 'invalid_parameter_value', hint = 'Check the name, and give the schema if it is not in the search_path.';
  end if;
  return t;
end
$$;

-- The name of a column as the catalogue has it.
create or replace function turno.adopt_column(t regclass, field text, name text) returns text
language plpgsql
stable
as $$
declare
  column_name text;
begin
  perform turno.check_name(adopt_column.field, adopt_column.name, 255);
  select a.attname::text into column_name
  from pg_attribute a
  where a.attrelid = adopt_column.t
    and a.attname in (adopt_column.name, lower(adopt_column.name))
    and a.attnum > 0
    and not a.attisdropped
  order by a.attname = adopt_column.name desc
  limit 1;
  if column_name is null then
    raise exception '% is %, and table % has no such column', adopt_column.field, adopt_column.name, adopt_column.t
      using errcode = 'invalid_parameter_value', hint = format('It has %s.', (
        select string_agg(a.attname, ', ' order by a.attnum)
        from pg_attribute a
        where a.attrelid = adopt_column.t
          and a.attnum > 0
          and not a.attisdropped));
  end if;
  return column_name;
end
$$;

-- Whether a table can be adopted at all, and whether its id tells one row from another.
create or replace function turno.adopt_check(t regclass, id text) returns void
language plpgsql
stable
as $$
declare
  c pg_class;
begin
  select * into strict c
  from pg_class r
  where r.oid = adopt_check.t;
  if c.relkind not in ('r', 'p') or c.relpersistence = 't' or c.relnamespace::regnamespace::text in ('pg_catalog', 'information_schema', 'turno') then
    raise exception 'table % is none that can be adopted', adopt_check.t
      using errcode = 'invalid_parameter_value', hint = 'Name an ordinary table of your own: no view, no temporary or system table.';
  end if;
  if not exists (
    select
    from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = adopt_check.t
      and a.attname = adopt_check.id
      and a.attnotnull
      and i.indisunique
      and i.indisvalid
      and i.indnkeyatts = 1
      and i.indpred is null)
  then
    raise exception 'id is %, which may be null or occur twice in table %', adopt_check.id, adopt_check.t
      using errcode = 'invalid_parameter_value', hint = 'Name the primary key, or a column that is not null and has a unique index of its own.';
  end if;
end
$$;

-- What was asked for, checked, with the defaults filled in.
create or replace function turno.adopt_ask(
  t regclass, id text, "user" text, shape text, suffix text, max_attempts integer
) returns turno.adopted
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  a turno.adopted;
begin
  if adopt_ask.shape is null or adopt_ask.shape not in ('processing', 'processed') then
    raise exception 'shape is %, and must be processing or processed', coalesce(quote_literal(adopt_ask.shape), 'null')
      using errcode = 'invalid_parameter_value', hint = 'processing has locks, attempts and errors; processed is one flag.';
  end if;
  if coalesce(adopt_ask.suffix, '') !~ '^[a-z0-9_]{0,16}$' then
    raise exception 'suffix is %, and must be up to 16 letters a to z, digits and underscores', quote_literal(adopt_ask.suffix)
      using errcode = 'invalid_parameter_value', hint = 'It becomes the end of the functions'' names.';
  end if;
  if adopt_ask.max_attempts is null or adopt_ask.max_attempts not between 1 and 1000 then
    raise exception 'max_attempts is %, and must be between 1 and 1000', coalesce(adopt_ask.max_attempts::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for 5.';
  end if;
  a.id_column := turno.adopt_column(adopt_ask.t, 'id', adopt_ask.id);
  perform turno.adopt_check(adopt_ask.t, a.id_column);
  if adopt_ask."user" is not null then
    a.user_column := turno.adopt_column(adopt_ask.t, 'user', adopt_ask."user");
  elsif exists (select from pg_attribute c where c.attrelid = adopt_ask.t and c.attname = 'user_id' and not c.attisdropped) then
    a.user_column := 'user_id';
  end if;
  select n.nspname::text, c.relname::text into a.schema_name, a.table_name
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where c.oid = adopt_ask.t;
  a.shape := adopt_ask.shape;
  a.suffix := coalesce(adopt_ask.suffix, '');
  a.max_attempts := adopt_ask.max_attempts;
  return a;
end
$$;

-- Function file adopt_words

-- Purpose: the words that the templates of adopted tables' functions are filled with. This is the one place on
--          PostgreSQL that puts names into quotes.
-- Index:   none.

-- Letters, digits and underscores only, because it becomes part of functions' and parameters' names.
create or replace function turno.adopt_slug(name text) returns text
language sql
immutable
as $$
  select coalesce(nullif(trim('_' from regexp_replace(lower(adopt_slug.name), '[^a-z0-9]+', '_', 'g')), ''), 'row')
$$;

-- notes: note; entries: entry; boxes: box. A word that merely ends like a plural stays as it is.
create or replace function turno.adopt_singular(word text) returns text
language sql
immutable
as $$
  select case
    when word ~ '[^aeiou]ies$' then regexp_replace(word, 'ies$', 'y')
    when word ~ '(ss|x|ch|sh)es$' then regexp_replace(word, 'es$', '')
    when word ~ '(ss|us|is)$' then word
    else regexp_replace(word, '(.)s$', '\1')
  end
$$;

-- The name of a function of an adopted table; {table} becomes the table's own name, cut to what still fits.
create or replace function turno.adopt_function_name(a turno.adopted, base text) returns text
language sql
immutable
as $$
  select replace(n.name, '{table}', left(turno.adopt_slug(a.table_name), 63 - length(n.name) + length('{table}')))
  from (select base || case when a.suffix = '' then '' else '_' || a.suffix end) n (name)
$$;

-- An index belongs to one table, whose whole name cannot always be part of the index's own.
create or replace function turno.adopt_index_name(a turno.adopted, what text) returns text
language sql
immutable
as $$
  select case
    when octet_length(a.table_name) <= 40 then a.table_name
    else left(turno.adopt_slug(a.table_name), 30) || '_' || left(md5(a.table_name), 8)
  end || '_turno_' || what
$$;

-- The type of a column as it is written anywhere, without its length.
create or replace function turno.adopt_type(a turno.adopted, name text) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select format_type(c.atttypid, -1)
  from pg_attribute c
  where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
    and c.attname = adopt_type.name
    and not c.attisdropped
$$;

-- How much of an error fits: users may have a column of their own for it.
create or replace function turno.adopt_error_length(a turno.adopted) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (select least(c.atttypmod - 4, 4000)
    from pg_attribute c
    where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
      and c.attname = 'error_message'
      and c.atttypmod > 4),
    4000)::text
$$;

-- Users may have a column of their own for the attempts too, and only one that is never null lets the index end the search.
create or replace function turno.adopt_attempts_left(a turno.adopted) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when exists (
      select
      from pg_attribute c
      where c.attrelid = format('%I.%I', a.schema_name, a.table_name)::regclass
        and c.attname = 'processing_attempts'
        and not c.attnotnull
        and not c.attisdropped)
    then format('coalesce(t.processing_attempts, 0) < %s', a.max_attempts)
    else format('t.processing_attempts < %s', a.max_attempts)
  end
$$;

-- %1$s table, %2$s id column, %3$s its parameter, %4$s its type, %5$s condition on the user, %6$s type of the user,
-- %7$s length of errors, %8$s condition on the attempts; the functions that others call: %9$s acquire, %10$s next, %11$s cleanup, %12$s reset.
create or replace function turno.adopt_words(a turno.adopted) returns text[]
language sql
stable
as $$
  select array[
    format('%I.%I', a.schema_name, a.table_name),
    format('%I', a.id_column),
    case a.shape
      when 'processed' then 'p_id'
      else format('%I', 'p_' || left(turno.adopt_singular(turno.adopt_slug(a.table_name)), 58) || '_id')
    end,
    turno.adopt_type(a, a.id_column),
    case when a.user_column is null then 'true' else format('(p_user_id is null or t.%I = p_user_id)', a.user_column) end,
    coalesce(turno.adopt_type(a, a.user_column), 'text'),
    turno.adopt_error_length(a),
    turno.adopt_attempts_left(a),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'acquire_processing_lock_token')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'get_next_{table}_for_processing_token')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'cleanup_abandoned_processing_locks_after')),
    format('%I.%I', a.schema_name, turno.adopt_function_name(a, 'reset_stuck_processing_after'))]
$$;

-- Function file adopt_take

-- Purpose: the functions by which a row of an adopted table is taken, as templates: see adopt_words.
-- Index:   the id's own; <table>_turno_waiting for those that look for rows.
--
-- A row is free if it is not processed, and not locked or locked for longer than the timeout. Nobody waits for a row
-- that somebody is just changing: that one counts as taken ("no key", because a row that is merely referred to by
-- another's insert is as free as any). The clock is read before the rows are: at the worst a lock lives a little longer.

create or replace function turno.adopt_take() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'acquire_processing_lock_token',
  '%3$s %4$s, p_lock_timeout interval default ''15 minutes''', '%4$s, interval', 'bigint', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - p_lock_timeout;
  token  bigint;
begin
  if p_lock_timeout is null or p_lock_timeout <= '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = 'timeout is ' || coalesce(p_lock_timeout::text, 'null') || ', and must be above 0',
      hint    = 'Give the longest time that the work can take.';
  end if;
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.%2$s = %3$s
      and t.processed_at is null
      and (t.processing_started_at is null or t.processing_started_at <= cutoff)
    for no key update skip locked)
  update %1$s t
  set processing_started_at = clock_timestamp(),
      processing_attempts   = coalesce(t.processing_attempts, 0) + 1,
      processing_token      = greatest(
        coalesce(t.processing_token, 0) + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
  from free f
  where t.%2$s = f.id
  returning t.processing_token into token;
  return token;
end
$body$,
  'Locks a row for processing and answers the token that releases it; null if it is locked by somebody else, or processed already.'
),
(
  'acquire_processing_lock',
  '%3$s %4$s, p_lock_timeout_minutes integer default 15', '%4$s, integer', 'boolean', 'plpgsql',
  $body$
begin
  return %9$s(%3$s, make_interval(mins => p_lock_timeout_minutes)) is not null;
end
$body$,
  'Locks a row for processing: true, or false if it is locked by somebody else or processed already. It answers no token, so a release cannot tell whose lock it ends: prefer acquire_processing_lock_token.'
),
(
  'get_next_{table}_for_processing_token',
  'p_user_id %6$s default null, p_limit integer default 10, p_lock_timeout interval default ''15 minutes''',
  '%6$s, integer, interval', 'setof %1$s', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - p_lock_timeout;
begin
  if p_lock_timeout is null or p_lock_timeout <= '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = 'timeout is ' || coalesce(p_lock_timeout::text, 'null') || ', and must be above 0',
      hint    = 'Give the longest time that the work can take.';
  end if;
  return query
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.processed_at is null
      and (t.processing_started_at is null or t.processing_started_at <= cutoff)
      and %8$s
      and %5$s
    order by t.processing_attempts, t.%2$s
    limit greatest(coalesce(p_limit, 10), 0)
    for no key update skip locked),
  taken as (
    update %1$s t
    set processing_started_at = clock_timestamp(),
        processing_attempts   = coalesce(t.processing_attempts, 0) + 1,
        processing_token      = greatest(
          coalesce(t.processing_token, 0) + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
    from free f
    where t.%2$s = f.id
    returning t.*)
  select n.*
  from taken n
  order by n.processing_attempts, n.%2$s;
end
$body$,
  'Locks and answers rows that are free, those tried least often first; processing_token of each is what releases it.'
),
(
  'get_next_{table}_for_processing',
  'p_user_id %6$s default null, p_limit integer default 10, p_lock_timeout_minutes integer default 15',
  '%6$s, integer, integer', 'setof %1$s', 'sql',
  $body$
-- Not plpgsql, which would remember the columns that the table has now.
select *
from %10$s(p_user_id, p_limit, make_interval(mins => p_lock_timeout_minutes))
$body$,
  'Locks and answers rows that are free, those tried least often first; processing_token of each is what releases it.'
)
$file$;

-- Function file adopt_give

-- Purpose: the functions by which a row of an adopted table is given back, as templates: see adopt_words.
-- Index:   the id's own.
--
-- With a token, only the holder of the newest lock changes anything; whoever was overtaken is told false. Sent again
-- because the answer was lost, a release finds its own token and its own effect, and is told true again. The seed's
-- functions know no token: they end whoever's lock it is, and can only refuse if there is none.

create or replace function turno.adopt_give() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'release_processing_lock', '%3$s %4$s, p_token bigint', '%4$s, bigint', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set processed_at          = clock_timestamp(),
      processing_started_at = null,
      error_message         = null
  where t.%2$s = %3$s
    and t.processing_token = p_token
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found or exists (
    select
    from %1$s t
    where t.%2$s = %3$s
      and t.processing_token = p_token
      and t.processed_at is not null);
end
$body$,
  'Marks a row as processed and unlocks it. False, and nothing changed, if the token is no longer that of the lock.'
),
(
  'release_processing_lock', '%3$s %4$s', '%4$s', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set processed_at          = clock_timestamp(),
      processing_started_at = null,
      error_message         = null
  where t.%2$s = %3$s
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found;
end
$body$,
  'Marks a row as processed and unlocks it, whoever locked it: after a timeout that may be somebody else. Prefer the one with p_token.'
),
(
  'release_processing_lock_with_error', '%3$s %4$s, p_error_message text, p_token bigint', '%4$s, text, bigint', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  error text := left(coalesce(nullif(p_error_message, ''), 'no error message was given'), %7$s);
begin
  update %1$s t
  set error_message         = error,
      processing_started_at = null
  where t.%2$s = %3$s
    and t.processing_token = p_token
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found or exists (
    select
    from %1$s t
    where t.%2$s = %3$s
      and t.processing_token = p_token
      and t.processing_started_at is null
      and t.processed_at is null
      and t.error_message = error);
end
$body$,
  'Records why processing failed and unlocks the row. False, and nothing changed, if the token is no longer that of the lock.'
),
(
  'release_processing_lock_with_error', '%3$s %4$s, p_error_message text', '%4$s, text', 'boolean', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  update %1$s t
  set error_message         = left(coalesce(nullif(p_error_message, ''), 'no error message was given'), %7$s),
      processing_started_at = null
  where t.%2$s = %3$s
    and t.processing_started_at is not null
    and t.processed_at is null;
  return found;
end
$body$,
  'Records why processing failed and unlocks the row, whoever locked it. Prefer the one with p_token.'
)
$file$;

-- Function file adopt_tidy

-- Purpose: the functions by which people look after an adopted table, as templates: see adopt_words.
-- Index:   <table>_turno_processing for what is locked. Counting looks at every row.

create or replace function turno.adopt_tidy() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'cleanup_abandoned_processing_locks_after', 'p_timeout interval', 'interval', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff  timestamptz := clock_timestamp() - greatest(p_timeout, '0');
  cleaned integer;
begin
  with gone as (
    select t.%2$s as id
    from %1$s t
    where t.processing_started_at <= cutoff
      and t.processed_at is null
    for no key update skip locked)
  update %1$s t
  set processing_started_at = null,
      error_message         = left('abandoned: not released within ' || p_timeout, %7$s)
  from gone g
  where t.%2$s = g.id;
  get diagnostics cleaned = row_count;
  return cleaned;
end
$body$,
  'Unlocks what has been locked for longer than p_timeout, and records that as the error. Answers how many. Tidiness only: an old lock is taken over in any case.'
),
(
  'cleanup_abandoned_processing_locks', 'p_timeout_minutes integer default 15', 'integer', 'integer', 'plpgsql',
  $body$
begin
  return %11$s(make_interval(mins => p_timeout_minutes));
end
$body$,
  'Unlocks what has been locked for longer than p_timeout_minutes, and records that as the error. Answers how many.'
),
(
  'reset_stuck_processing_after', 'p_timeout interval default ''15 minutes'', p_all boolean default false', 'interval, boolean', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  cutoff   timestamptz := clock_timestamp() - greatest(p_timeout, '0');
  how_many integer;
begin
  update %1$s t
  set processing_started_at = null,
      processing_attempts   = case when p_all then 0 else t.processing_attempts end,
      error_message         = case when p_all then null else t.error_message end
  where t.processed_at is null
    and (t.processing_started_at <= cutoff
      or p_all and (t.processing_started_at is not null or t.error_message is not null or t.processing_attempts > 0));
  get diagnostics how_many = row_count;
  return how_many;
end
$body$,
  'Unlocks what has been locked for longer than p_timeout; with p_all, makes every row that is not processed as new. Answers how many.'
),
(
  'reset_stuck_processing', 'p_all boolean default false, p_timeout_minutes integer default 15', 'boolean, integer', 'integer', 'plpgsql',
  $body$
begin
  return %12$s(make_interval(mins => p_timeout_minutes), p_all);
end
$body$,
  'Unlocks what has been locked for longer than p_timeout_minutes; with p_all, makes every row that is not processed as new. Answers how many.'
),
(
  'get_processing_stats', 'p_user_id %6$s default null', '%6$s',
  'table (total bigint, pending bigint, processing bigint, completed bigint, failed bigint)', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  return query
  select
    count(*),
    count(*) filter (where t.processed_at is null and t.processing_started_at is null and t.error_message is null),
    count(*) filter (where t.processed_at is null and t.processing_started_at is not null),
    count(*) filter (where t.processed_at is not null),
    count(*) filter (where t.processed_at is null and t.processing_started_at is null and t.error_message is not null)
  from %1$s t
  where %5$s;
end
$body$,
  'How many rows are waiting, locked, processed, and failed. Looks at every row.'
)
$file$;

-- Function file adopt_mark

-- Purpose: the functions of an adopted table whose rows have one flag, as templates: see adopt_words.
-- Index:   the id's own.
--
-- Whoever turns the flag has the row. An update that is under way elsewhere is not waited for: until that transaction
-- ends, the row is its own. There is no timeout and no token here. A flag that was committed by a process that died
-- stays until somebody takes it back, so keep the mark and the work in one transaction, or adopt with shape processing.

create or replace function turno.adopt_mark() returns setof turno.adopt_function
language sql
immutable
as $file$
values
(
  'try_mark_as_processing', '%3$s %4$s', '%4$s', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  marked integer;
begin
  with free as (
    select t.%2$s as id
    from %1$s t
    where t.%2$s = %3$s
      and t.processed is not true
    for no key update skip locked)
  update %1$s t
  set processed    = true,
      processed_at = clock_timestamp()
  from free f
  where t.%2$s = f.id;
  get diagnostics marked = row_count;
  return marked;
end
$body$,
  'Marks a row: 1, or 0 if somebody else has marked it or is about to.'
),
(
  'mark_as_unprocessed', '%3$s %4$s', '%4$s', 'integer', 'plpgsql',
  $body$
#variable_conflict use_variable
declare
  unmarked integer;
begin
  update %1$s t
  set processed    = false,
      processed_at = null
  where t.%2$s = %3$s
    and t.processed;
  get diagnostics unmarked = row_count;
  return unmarked;
end
$body$,
  'Takes a mark back, so that the row is processed again: 1, or 0 if it was not marked.'
),
(
  'get_processing_stats', 'p_user_id %6$s default null', '%6$s',
  'table (total bigint, pending bigint, processing bigint, completed bigint, failed bigint)', 'plpgsql',
  $body$
#variable_conflict use_variable
begin
  return query
  select
    count(*),
    count(*) filter (where t.processed is not true),
    0::bigint,
    count(*) filter (where t.processed),
    0::bigint
  from %1$s t
  where %5$s;
end
$body$,
  'How many rows are not marked, and marked. Looks at every row.'
)
$file$;

-- Function file adopt_plan

-- Purpose: what has to be done to adopt a table, as statements: adopt runs them, and adopt_print shows them.
-- Index:   adopted_pkey.

create or replace function turno.adopt_columns(shape text)
returns table (name text, definition text, types text[])
language sql
immutable
as $$
  -- No default needs a rewrite of the table: they are constants, or null.
  select c.name, c.definition, c.types
  from (values
    ('processing', 'processing_started_at', 'timestamptz', array['timestamptz']),
    ('processing', 'processed_at', 'timestamptz', array['timestamptz', 'timestamp']),
    ('processing', 'processing_attempts', 'integer not null default 0', array['int4', 'int8']),
    ('processing', 'error_message', 'text', array['text', 'varchar']),
    ('processing', 'processing_token', 'bigint', array['int8']),
    ('processed', 'processed', 'boolean not null default false', array['bool']),
    ('processed', 'processed_at', 'timestamptz', array['timestamptz', 'timestamp'])
  ) c (shape, name, definition, types)
  where c.shape = adopt_columns.shape
$$;

-- A column that carries this comment was added by adopt; one that has lost it is somebody else's.
create or replace function turno.adopt_sign() returns text
language sql
immutable
as $$
  select 'Added by turno adopt'
$$;

create or replace function turno.adopt_is_signed(t regclass, name text) returns boolean
language sql
stable
as $$
  select exists (
    select
    from pg_attribute c
    where c.attrelid = adopt_is_signed.t
      and c.attname = adopt_is_signed.name
      and not c.attisdropped
      and col_description(c.attrelid, c.attnum) = turno.adopt_sign())
$$;

-- The columns that are missing. One that is there is used as it is, if its type will do.
create or replace function turno.adopt_missing(t regclass, shape text) returns text[]
language plpgsql
stable
as $$
declare
  missing text[] := '{}';
  c       record;
  found_type text;
begin
  for c in
    select *
    from turno.adopt_columns(adopt_missing.shape)
  loop
    select y.typname::text into found_type
    from pg_attribute a
    join pg_type y on y.oid = a.atttypid
    where a.attrelid = adopt_missing.t
      and a.attname = c.name
      and not a.attisdropped;
    if found_type is null then
      missing := missing || c.name;
    elsif found_type <> all (c.types) then
      raise exception 'table % has a column % of type %, and it must be %', adopt_missing.t, c.name, found_type, array_to_string(c.types, ' or ')
        using errcode = 'invalid_parameter_value', hint = 'Change its type, or rename it: adopt adds its own then.';
    end if;
  end loop;
  return missing;
end
$$;

create or replace function turno.adopt_indexes(a turno.adopted)
returns table (name text, definition text)
language sql
stable
as $$
  select turno.adopt_index_name(a, i.what), format('%s where %s', format(i.columns, a.id_column), i.condition)
  from (values
    ('processing', 'waiting', '(processing_attempts, %I)', 'processed_at is null'),
    ('processing', 'processing', '(processing_started_at)', 'processing_started_at is not null'),
    ('processed', 'unmarked', '(%I)', 'not processed')
  ) i (shape, what, columns, condition)
  where i.shape = a.shape
$$;

-- The functions, with everything filled in.
create or replace function turno.adopt_functions(a turno.adopted) returns setof turno.adopt_function
language sql
stable
as $$
  select
    turno.adopt_function_name(a, f.name), format(f.arguments, variadic w.words), format(f.types, variadic w.words),
    format(f.returns, variadic w.words), f.language, format(f.body, variadic w.words), f.said
  from turno.adopt_words(a) w (words)
  cross join lateral (
    select * from turno.adopt_take() where a.shape = 'processing'
    union all
    select * from turno.adopt_give() where a.shape = 'processing'
    union all
    select * from turno.adopt_tidy() where a.shape = 'processing'
    union all
    select * from turno.adopt_mark() where a.shape = 'processed') f
$$;

-- As a dollar-quoted text, which is good to read, unless a name in it would end the quotes.
create or replace function turno.adopt_quoted(body text) returns text
language sql
immutable
as $$
  select case when position('$turno$' in body) = 0 then '$turno$' || body || '$turno$' else quote_literal(body) end
$$;

-- rights: of a function that is new; one that is there already keeps its own.
create or replace function turno.adopt_make_function(a turno.adopted, f turno.adopt_function, rights text[]) returns text[]
language sql
stable
as $$
  -- Triggers of the table run inside, and may rely on names in its schema.
  select array[
    format(
      E'create or replace function %I.%I(%s)\nreturns %s\nlanguage %s\nsecurity invoker\nset search_path = pg_catalog, %I%s, pg_temp\nas %s',
      a.schema_name, f.name, f.arguments, f.returns, f.language, a.schema_name,
      case when a.schema_name = 'public' then '' else ', public' end, turno.adopt_quoted(f.body)),
    format('comment on function %I.%I(%s) is %L', a.schema_name, f.name, f.types, f.said)]
    || rights
$$;

create or replace function turno.adopt_make_columns(a turno.adopted, missing text[]) returns text[]
language sql
stable
as $$
  select array[format(
      E'alter table %I.%I\n%s', a.schema_name, a.table_name,
      string_agg(format('  add column %I %s', c.name, c.definition), E',\n' order by c.place))]
    || array_agg(format('comment on column %I.%I.%I is %L', a.schema_name, a.table_name, c.name, turno.adopt_sign()) order by c.place)
  from turno.adopt_columns(a.shape) with ordinality c (name, definition, types, place)
  where c.name = any (missing)
  having count(*) > 0
$$;

create or replace function turno.adopt_record(a turno.adopted) returns text
language sql
stable
as $$
  select format(
    E'insert into turno.adopted (schema_name, table_name, id_column, user_column, shape, suffix, max_attempts, columns, indexes, functions, replaced, restore)\n'
    'values (%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)\n'
    'on conflict (schema_name, table_name) do update\n'
    'set id_column    = excluded.id_column,\n'
    '    user_column  = excluded.user_column,\n'
    '    shape        = excluded.shape,\n'
    '    suffix       = excluded.suffix,\n'
    '    max_attempts = excluded.max_attempts,\n'
    '    columns      = excluded.columns,\n'
    '    indexes      = excluded.indexes,\n'
    '    functions    = excluded.functions,\n'
    '    replaced     = excluded.replaced,\n'
    '    restore      = excluded.restore',
    a.schema_name, a.table_name, a.id_column, a.user_column, a.shape, a.suffix, a.max_attempts, a.columns, a.indexes, a.functions,
    a.replaced, a.restore)
$$;

create or replace function turno.adopt_plan(a turno.adopted, "replace" boolean) returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  t       regclass := format('%I.%I', a.schema_name, a.table_name);
  missing text[] := turno.adopt_missing(t, a.shape);
  steps   text[] := coalesce(turno.adopt_make_columns(a, missing), '{}');
  old     turno.adopted;
  taken   regprocedure[];
begin
  select * into old
  from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  select coalesce(array_agg(w.f), '{}') into taken
  from turno.adopt_in_the_way(a, coalesce(old.functions, '{}')) w (f);
  perform turno.adopt_refuse_taken(a, taken, adopt_plan."replace");
  a.replaced := coalesce(old.replaced, '{}') || taken::text[];
  -- By age: a function that another one calls is the older of the two.
  select coalesce(old.restore, '{}') || coalesce(array_agg(r.step order by o.f::oid, r.place), '{}') into a.restore
  from unnest(taken) o (f)
  cross join lateral unnest(turno.adopt_restore(o.f)) with ordinality r (step, place);
  select missing || coalesce(array_agg(c order by c), '{}') into a.columns
  from unnest(old.columns) c
  where turno.adopt_is_signed(t, c);
  select array_agg(i.name), steps || coalesce(
    array_agg(format('create index %I on %s %s', i.name, t, i.definition)) filter (where to_regclass(format('%I.%I', a.schema_name, i.name)) is null), '{}')
  into a.indexes, steps
  from turno.adopt_indexes(a) i;
  select array_agg(format('%I.%I(%s)', a.schema_name, f.name, f.types)) into a.functions
  from turno.adopt_functions(a) f;
  -- What an earlier adoption with other options has made.
  select steps || coalesce(array_agg(d.step), '{}') into steps
  from (
    select format('drop function if exists %s', f) as step
    from unnest(old.functions) f
    where f <> all (a.functions)
    union all
    select format('drop index if exists %I.%I', a.schema_name, i)
    from unnest(old.indexes) i
    where i <> all (a.indexes)
    union all
    -- In one statement, because they may call each other.
    select format('drop routine %s', array_to_string(taken, ', '))
    where cardinality(taken) > 0) d;
  select steps || array_agg(m.step order by f.place, m.place) || turno.adopt_record(a) into steps
  from turno.adopt_functions(a) with ordinality f (name, arguments, types, returns, language, body, said, place)
  cross join lateral unnest(turno.adopt_make_function(
    a, row(f.name, f.arguments, f.types, f.returns, f.language, f.body, f.said)::turno.adopt_function,
    turno.adopt_rights_of_new(format('%I.%I(%s)', a.schema_name, f.name, f.types), taken))) with ordinality m (step, place);
  return steps;
end
$$;

-- Function file adopt_replace

-- Purpose: functions of the user's own that have a name which adopt needs: which they are, when they may be replaced,
--          and how unadopt restores them.
-- Index:   adopted_pkey.

-- All of a name, whatever their arguments: another one would answer some calls in the place of adopt's own.
create or replace function turno.adopt_in_the_way(a turno.adopted, ours text[]) returns setof regprocedure
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select p.oid::regprocedure
  from pg_proc p
  where p.pronamespace = format('%I', a.schema_name)::regnamespace
    and p.proname in (select f.name from turno.adopt_functions(a) f)
    and p.oid not in (
      select o.oid
      from unnest(adopt_in_the_way.ours) u (name)
      cross join lateral to_regprocedure(u.name) o (oid)
      where o.oid is not null)
  order by p.oid::regprocedure::text
$$;

-- The roles of a list that exist here, as SQL writes them.
create or replace function turno.adopt_roles(variadic names text[]) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(case n.name when 'public' then 'public' else quote_ident(n.name) end, ', ' order by n.place)
  from unnest(adopt_roles.names) with ordinality n (name, place)
  where n.name = 'public'
    or exists (select from pg_roles r where r.rolname = n.name)
$$;

-- A role that PostgREST uses for requests without a login must not call what adopt creates, although Supabase's
-- default privileges grant it every new function of schema public.
create or replace function turno.adopt_rights(f text) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array[
      format('revoke all on function %s from %s', adopt_rights.f, turno.adopt_roles('public', 'anon', 'authenticated'))]
    || case
      when turno.adopt_roles('turno_app', 'service_role') is null then '{}'
      else array[format('grant execute on function %s to %s', adopt_rights.f, turno.adopt_roles('turno_app', 'service_role'))]
    end
$$;

-- A function that stays keeps the rights that it has: its owner may have granted more.
create or replace function turno.adopt_rights_of_new(f text, taken regprocedure[]) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when to_regprocedure(f) is null or to_regprocedure(f) = any (taken) then turno.adopt_rights(f)
    else '{}'
  end
$$;

-- What depends on functions, without what depends on it among themselves.
create or replace function turno.adopt_callers(functions regprocedure[]) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
  from pg_depend d
  where d.refclassid = 'pg_proc'::regclass
    and d.refobjid = any (adopt_callers.functions::oid[])
    and not (d.classid = 'pg_proc'::regclass and d.objid = any (adopt_callers.functions::oid[]))
$$;

-- Raises an error unless the functions that are in the way may be replaced.
create or replace function turno.adopt_refuse_taken(a turno.adopted, taken regprocedure[], "replace" boolean) returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  t record;
begin
  for t in
    select
      p.oid::regprocedure as f,
      p.prokind,
      pg_get_userbyid(p.proowner) as owner,
      pg_has_role(p.proowner, 'usage') as is_owner,
      (select format('%I.%I', o.schema_name, o.table_name)
       from turno.adopted o
       where p.oid in (select to_regprocedure(n)::oid from unnest(o.functions) n)
       limit 1) as adopted
    from pg_proc p
    where p.oid = any (taken::oid[])
    order by p.oid::regprocedure::text
  loop
    if t.adopted is not null then
      raise exception 'suffix is needed: function % is that of the adopted table %', t.f, t.adopted
        using errcode = 'invalid_parameter_value', hint = 'Give a suffix for the functions'' names, such as the table''s name.';
    end if;
    if not adopt_refuse_taken."replace" then
      raise exception 'suffix is needed, or replace: there are functions already: %', array_to_string(taken, ', ')
        using errcode = 'invalid_parameter_value',
          hint = 'See the difference with `turno adopt --diff` or turno.adopt_difference, and replace them with --replace or '
                 'replace => true; or give a suffix for the names of the new functions, and both stay.';
    end if;
    if t.prokind not in ('f', 'p') then
      raise exception 'suffix is needed: % is an aggregate or a window function', t.f
        using errcode = 'invalid_parameter_value', hint = 'It is not replaced. Rename it, or give a suffix.';
    end if;
    if not t.is_owner then
      raise exception 'function % belongs to role %, and is not replaced', t.f, t.owner
        using errcode = 'insufficient_privilege',
          hint = format('Adopt as role %I, or first run `alter function %s owner to %I` as an administrator.', t.owner, t.f, current_user);
    end if;
  end loop;
  if turno.adopt_callers(taken) is not null then
    raise exception 'functions cannot be replaced, because of what depends on them: %', turno.adopt_callers(taken)
      using errcode = 'dependent_objects_still_exist', hint = 'Drop that first, then adopt, and create it again.';
  end if;
end
$$;

-- The statements that create a function as it is now, with its owner, its comment and the right to call it.
create or replace function turno.adopt_restore(f regprocedure) returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select array[rtrim(pg_get_functiondef(p.oid), E'\n')]
    || array[
      format('comment on routine %s is %L', f, obj_description(p.oid, 'pg_proc')),
      format('revoke all on routine %s from %s', f, turno.adopt_roles('public', 'anon', 'authenticated', 'service_role', 'turno_app'))]
    || coalesce((
      select array_agg(format(
        'grant execute on routine %s to %s%s', f,
        case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end,
        case when g.is_grantable then ' with grant option' else '' end))
      from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
      where g.grantee <> p.proowner), '{}')
    -- Also if it is the current role: another one may undo.
    || array[format('alter routine %s owner to %I', f, pg_get_userbyid(p.proowner))]
  from pg_proc p
  where p.oid = adopt_restore.f
$$;

-- Function file adopt_difference

-- Purpose: what replacing the user's own functions would change, as text for people: lines that begin with a minus sign go,
--          lines that begin with a plus sign come. Of a function that is only added, its signature says enough.
-- Index:   adopted_pkey.

create or replace function turno.adopt_lines(sign text, body text) returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select regexp_replace(rtrim(adopt_lines.body, E'\n'), '^', adopt_lines.sign || ' ', 'gn')
$$;

create or replace function turno.adopt_callable_by(f regprocedure) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select 'may be called by: ' || coalesce(string_agg(case when g.grantee = 0 then 'every role (public)' else pg_get_userbyid(g.grantee) end, ', '), 'its owner')
  from pg_proc p
  cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
  where p.oid = adopt_callable_by.f
    and g.grantee <> p.proowner
$$;

create or replace function turno.adopt_compare(a turno.adopted) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  taken regprocedure[];
  text_of_all text;
begin
  select array_agg(w.f) into taken
  from turno.adopt_in_the_way(a, coalesce((
    select o.functions
    from turno.adopted o
    where o.schema_name = a.schema_name
      and o.table_name = a.table_name), '{}')) w (f);
  if taken is null then
    return '';
  end if;
  select string_agg(d.entry, E'\n\n' order by d.name, d.entry) into text_of_all
  from (
    select
      coalesce(o.f::text, n.signature) as name,
      concat_ws(
        E'\n',
        case
          when o.f is null then 'create ' || n.signature
          when n.signature is null then 'drop ' || o.f::text
          else 'replace ' || o.f::text
        end,
        case
          when o.f is not null then turno.adopt_lines('-', pg_get_functiondef(o.f) || turno.adopt_callable_by(o.f))
        end,
        case
          when o.f is not null and n.signature is not null then turno.adopt_lines('+', concat(
            n.definition, E'\nmay be called by: ', coalesce(turno.adopt_roles('turno_app', 'service_role'), 'its owner')))
        end) as entry
    from unnest(taken) o (f)
    full join (
      select
        format('%I.%I(%s)', a.schema_name, f.name, f.types) as signature,
        (turno.adopt_make_function(
          a, row(f.name, f.arguments, f.types, f.returns, f.language, f.body, f.said)::turno.adopt_function, '{}'))[1] as definition
      from turno.adopt_functions(a) f) n
      on to_regprocedure(n.signature) = o.f) d;
  return text_of_all || E'\n';
end
$$;

create or replace function turno.adopt_difference(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5
) returns text
language sql
stable
as $$
  select turno.adopt_compare(turno.adopt_ask(
    turno.adopt_table(adopt_difference."table"), adopt_difference.id, adopt_difference."user", adopt_difference.shape,
    adopt_difference.suffix, adopt_difference.max_attempts))
$$;

comment on function turno.adopt_difference is
  'The functions that adopt would replace, next to those that it would create; empty if none is in the way. Nothing is changed.';

-- Function file adopt

-- Purpose: adopts a table: the claim protocol on a table that is there already. For the owner of both, schema turno
--          and the table: these run with the caller's own rights, because they change the caller's own table.
-- Index:   adopted_pkey.

create or replace function turno.adopt_apply(a turno.adopted, "replace" boolean) returns turno.adopted
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  step text;
begin
  foreach step in array turno.adopt_plan(a, adopt_apply."replace") loop
    execute step;
  end loop;
  select * into a
  from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  return a;
end
$$;

create or replace function turno.adopt(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5,
  "replace"    boolean default false
) returns turno.adopted
language plpgsql
-- A table that is in use must not keep its other users waiting behind this.
set lock_timeout = '5s'
as $$
begin
  -- Two who adopt at once take turns.
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('turno.adopt', 0));
  return turno.adopt_apply(turno.adopt_ask(
    turno.adopt_table(adopt."table"), adopt.id, adopt."user", adopt.shape, adopt.suffix, adopt.max_attempts),
    adopt."replace");
end
$$;

comment on function turno.adopt is
  'Adds the columns, indexes and functions of the claim protocol to a table, as far as they are missing. Repeating it changes nothing. Functions of your own with the same names are replaced only if replace is true; unadopt restores them.';

create or replace function turno.adopt_print(
  "table"      text,
  id           text,
  "user"       text    default null,
  shape        text    default 'processing',
  suffix       text    default '',
  max_attempts integer default 5,
  "replace"    boolean default false
) returns text
language plpgsql
stable
as $$
begin
  return E'begin;\n\n'
    || pg_catalog.array_to_string(turno.adopt_plan(turno.adopt_ask(
      turno.adopt_table(adopt_print."table"), adopt_print.id, adopt_print."user", adopt_print.shape, adopt_print.suffix,
      adopt_print.max_attempts), adopt_print."replace"), E';\n\n')
    || E';\n\ncommit;\n';
end
$$;

comment on function turno.adopt_print is 'What adopt would do, as an SQL script; nothing is done.';

-- The adopted table that a name means: in full, or seen from a search_path.
create or replace function turno.adopted_find("table" text, path name[]) returns setof turno.adopted
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select a.*
  from turno.adopted a
  where (adopted_find."table" in (a.table_name, quote_ident(a.table_name)) and a.schema_name = any (adopted_find.path))
    or adopted_find."table" in (
      a.schema_name || '.' || a.table_name,
      quote_ident(a.schema_name) || '.' || quote_ident(a.table_name))
    or (lower(adopted_find."table") = a.table_name and a.schema_name = any (adopted_find.path))
  order by a.table_name = adopted_find."table" desc, array_position(adopted_find.path, a.schema_name::name)
  limit 1
$$;

-- Everything that depends on what adopt has added, in words.
create or replace function turno.adopt_dependents(a turno.adopted, t regclass) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
  from pg_depend d
  left join pg_constraint n on d.classid = 'pg_constraint'::regclass and n.oid = d.objid
  where (
      (d.refclassid = 'pg_class'::regclass and d.refobjid = t and d.refobjsubid in (
        select c.attnum
        from pg_attribute c
        where c.attrelid = t
          and c.attname = any (a.columns)))
      or (d.refclassid = 'pg_proc'::regclass and d.refobjid in (select to_regprocedure(f)::oid from unnest(a.functions) f)))
    and d.classid <> 'pg_attrdef'::regclass
    and n.contype is distinct from 'n'
    and not (d.classid = 'pg_class'::regclass and d.objid in (
      select to_regclass(format('%I.%I', a.schema_name, i))::oid
      from unnest(a.indexes) i))
$$;

create or replace function turno.adopt_undo(a turno.adopted) returns turno.adopted
language plpgsql
set search_path = pg_catalog, pg_temp
-- A function that is restored may name a column that is not there any more: that is for its owner to see to.
set check_function_bodies = off
as $$
declare
  t    regclass := to_regclass(format('%I.%I', a.schema_name, a.table_name));
  dependents text;
  newer text;
  step text;
begin
  select coalesce(array_agg(c order by c), '{}') into a.columns
  from unnest(a.columns) c
  where turno.adopt_is_signed(t, c);
  -- Without the table, the functions that it had before would refer to nothing.
  if t is null then
    a.replaced := '{}';
    a.restore := '{}';
  end if;
  dependents := turno.adopt_dependents(a, t);
  if dependents is not null then
    raise exception 'table %.% cannot be let go, because of what depends on it: %', a.schema_name, a.table_name, dependents
      using errcode = 'dependent_objects_still_exist', hint = 'Drop that first, and then undo again.';
  end if;
  select r.f into newer
  from unnest(a.replaced) r (f)
  where to_regprocedure(r.f) is not null
    and to_regprocedure(r.f) not in (
      select o.f
      from unnest(a.functions) u (name)
      cross join lateral to_regprocedure(u.name) o (f)
      where o.f is not null)
  limit 1;
  if newer is not null then
    raise exception 'function % was created after adopt replaced one of that name, which undoing restores', newer
      using errcode = 'dependent_objects_still_exist', hint = 'Rename or drop the newer one first, and then undo again.';
  end if;
  for step in
    select format('drop function if exists %s', f) from unnest(a.functions) f
    union all
    select format('drop index if exists %I.%I', a.schema_name, i) from unnest(a.indexes) i
    union all
    select format('alter table %s drop column %I', t, c) from unnest(a.columns) c
    union all
    select r from unnest(a.restore) r
  loop
    begin
      execute step;
    exception
      -- A role that could call a function before, and was dropped since.
      when undefined_object then
        if step not like 'grant execute on routine %' then
          raise;
        end if;
    end;
  end loop;
  delete from turno.adopted o
  where o.schema_name = a.schema_name
    and o.table_name = a.table_name;
  return a;
end
$$;

create or replace function turno.unadopt("table" text) returns turno.adopted
language plpgsql
set lock_timeout = '5s'
as $$
declare
  a turno.adopted;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('turno.adopt', 0));
  select * into a
  from turno.adopted_find(unadopt."table", pg_catalog.current_schemas(false));
  if not found then
    raise exception 'table % is not adopted', unadopt."table"
      using errcode = 'invalid_parameter_value', hint = 'There is nothing to undo.';
  end if;
  return turno.adopt_undo(a);
end
$$;

comment on function turno.unadopt is
  'Drops the functions, indexes and columns that adopt has added to a table, and nothing else, and restores the functions that it replaced. Answers what was dropped.';

-- How a client calls the functions of an adopted table: names are put into quotes here, and nowhere else.
create or replace function turno.adopted_calls("table" text, path name[] default array['public'])
returns table (verb text, call text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.verb, format(c.call, a.schema_name, turno.adopt_function_name(a, c.name), w.words[4], w.words[6], a.id_column)
  from turno.adopted_find(adopted_calls."table", adopted_calls.path) a
  cross join lateral turno.adopt_words(a) w (words)
  join (values
    ('processing', 'acquire', 'acquire_processing_lock_token', 'select %1$I.%2$I($1::%3$s, $2) as token'),
    ('processing', 'release', 'release_processing_lock', 'select %1$I.%2$I($1::%3$s, $2) as done'),
    ('processing', 'fail', 'release_processing_lock_with_error', 'select %1$I.%2$I($1::%3$s, $2, $3) as done'),
    ('processing', 'cleanup', 'cleanup_abandoned_processing_locks_after', 'select %1$I.%2$I($1)::bigint as many'),
    ('processing', 'reset', 'reset_stuck_processing_after', 'select %1$I.%2$I($1, $2)::bigint as many'),
    ('processing', 'next', 'get_next_{table}_for_processing_token',
      'select t.%5$I::text as id, t.processing_token as token, t.processing_attempts::integer as attempt from %1$I.%2$I($1::%4$s, $2, $3) t'),
    ('processed', 'mark', 'try_mark_as_processing', 'select %1$I.%2$I($1::%3$s) > 0 as done'),
    ('processed', 'unmark', 'mark_as_unprocessed', 'select %1$I.%2$I($1::%3$s) > 0 as done'),
    ('processing', 'stats', 'get_processing_stats', 'select s.total, s.pending, s.processing, s.completed, s.failed from %1$I.%2$I($1::%4$s) s'),
    ('processed', 'stats', 'get_processing_stats', 'select s.total, s.pending, s.processing, s.completed, s.failed from %1$I.%2$I($1::%4$s) s')
  ) c (shape, verb, name, call) on c.shape = a.shape
  where to_regclass(format('%I.%I', a.schema_name, a.table_name)) is not null
$$;

comment on function turno.adopted_calls is
  'How the functions of an adopted table are called, verb by verb; nothing if it is not adopted. For client libraries.';

-- Function file access

-- Purpose: access tokens. Those who serve may look one up; to make, to list and to end them is for the owner of the
--          schema: these run as whoever calls them, and turno_app may not.
-- Index:   access_pkey, access_created.

-- What an access token is at this moment.
create or replace function turno.access_now(a turno.access) returns turno.access_view
language sql
volatile
as $$
  select row(
    a.id, a.name, a.role, a.prefix,
    case
      when a.revoked_at is not null then 'revoked'
      when a.expires_at <= clock_timestamp() then 'expired'
      else 'live'
    end,
    a.created_at, a.expires_at, a.revoked_at)::turno.access_view
$$;

create or replace function turno.access_create(
  id         text,
  hash       bytea,
  name       text,
  role       text,
  prefix     text     default '',
  expires_in interval default null
) returns turno.access_view
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  a turno.access;
begin
  perform turno.check_name('id', access_create.id, 255);
  perform turno.check_name('name', access_create.name, 255);
  if access_create.role is null or access_create.role not in ('read', 'operate', 'admin') then
    raise exception 'role is %, and must be read, operate or admin', coalesce(quote_literal(access_create.role), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Choose the least that is enough.';
  end if;
  if octet_length(access_create.hash) is distinct from 32 then
    raise exception 'hash must be the 32 bytes of a SHA-256'
      using errcode = 'invalid_parameter_value', hint = 'Use turno token create.';
  end if;
  insert into turno.access (id, hash, name, role, prefix, created_at, expires_at)
  values (
    access_create.id, access_create.hash, access_create.name, access_create.role, coalesce(access_create.prefix, ''),
    clock_timestamp(), clock_timestamp() + access_create.expires_in)
  -- Asked again, because the answer was lost.
  on conflict (id) do update
  set name = excluded.name
  where access.hash = excluded.hash
  returning * into strict a;
  return turno.access_now(a);
end
$$;

comment on function turno.access_create is
  'Keeps a new access token: its public id, the SHA-256 of its secret, what it allows. For the owner of the schema.';

create or replace function turno.access_list("limit" integer default 1000) returns setof turno.access_view
language sql
set search_path = pg_catalog, pg_temp
as $$
  select v.*
  from turno.access a
  cross join lateral turno.access_now(a) v
  order by a.created_at desc, a.id
  limit access_list."limit"
$$;

comment on function turno.access_list is 'The access tokens, newest first, those that are over too. For the owner of the schema.';

create or replace function turno.access_revoke(id text) returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
  with ended as (
    update turno.access a
    set revoked_at = clock_timestamp()
    where a.id = access_revoke.id
      and a.revoked_at is null
    returning 1)
  select exists (select from ended)
$$;

comment on function turno.access_revoke is
  'Ends an access token for good; false if there is none, or it has ended already. For the owner of the schema.';

create or replace function turno.access_find(id text, out view turno.access_view, out hash bytea) returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select turno.access_now(a), a.hash
  from turno.access a
  where a.id = access_find.id
$$;

comment on function turno.access_find is 'An access token by its id, with the hash that its secret must have.';

create or replace function turno.access_any() returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from turno.access)
$$;

comment on function turno.access_any is 'Whether an access token was ever made, revoked ones included.';

-- Function file sweep

-- Purpose: tidiness, never correctness: closes holdings whose time is up, forgets resources long
--          unused (raising the token floor first), dead waiters and old history. Bounded by "batch" a
--          kind; call it again until it answers zeros.
-- Index:   inbox_done_at, inbox_key_done, inbox_failed_oldest, inbox_request_at; once_sweep; lock_pkey (scanned whole: there is no index on the expiry, on purpose), lock_history_pkey, deed_pkey.

-- The inbox's part: completions, keys and answered requests that are too old, and counters.
create or replace function turno.inbox_sweep(keep_completed interval, batch integer) returns bigint
language plpgsql
as $$
declare
  got  bigint;
  many bigint;
begin
  perform turno.inbox_fold();
  delete from turno.inbox_done d
  where d.ctid = any (array(
    select o.at
    from turno.inbox_queue q
    cross join lateral (
      select t.ctid as at
      from turno.inbox_done t
      where t.queue_id = q.id
        and t.at < clock_timestamp() - keep_completed
      order by t.at
      limit batch) o
    limit batch));
  get diagnostics many = row_count;
  delete from turno.inbox_key k
  where k.ctid = any (array(
    select t.ctid
    from turno.inbox_key t
    where t.done_at < clock_timestamp() - keep_completed
    limit batch));
  get diagnostics got = row_count;
  many := many + got;
  delete from turno.inbox_request r
  where r.ctid = any (array(
    select t.ctid
    from turno.inbox_request t
    where t.at < clock_timestamp() - interval '10 minutes'
    limit batch));
  get diagnostics got = row_count;
  return many + got;
end
$$;

-- Failed items that are too old, queue by queue; none if keep_failed is null. Not the outbox's dead events: they wait for a
-- person, and events behind them may be parked.
create or replace function turno.inbox_sweep_failed(keep_failed interval, batch integer) returns bigint
language plpgsql
as $$
declare
  q    integer;
  many bigint := 0;
begin
  if keep_failed is null then
    return 0;
  end if;
  for q in
    select t.id
    from turno.inbox_queue t
    where not starts_with(t.name, '$')
  loop
    many := many + turno.inbox_forget_failed(
      q,
      array(
        select f.id
        from turno.inbox_failed f
        where f.lane / 4 = q
          and f.failed_at < clock_timestamp() - keep_failed
        order by f.failed_at
        limit batch - many),
      batch);
    exit when many >= batch;
  end loop;
  return many;
end
$$;

-- The outbox's part: what has left it, what is archived, and what consumers have seen.
create or replace function turno.outbox_sweep(
  keep_completed interval,
  keep_archive   interval,
  keep_seen      interval,
  batch          integer,
  out sent       bigint,
  out archived   bigint,
  out seen       bigint
)
language plpgsql
as $$
begin
  delete from turno.outbox_sent s
  where s.ctid = any (array(
    select t.ctid
    from turno.outbox_sent t
    where t.at < clock_timestamp() - keep_completed
    limit batch));
  get diagnostics sent = row_count;
  delete from turno.outbox_archive a
  where a.ctid = any (array(
    select t.ctid
    from turno.outbox_archive t
    where t.dispatched_at < clock_timestamp() - keep_archive
    limit batch));
  get diagnostics archived = row_count;
  delete from turno.seen s
  where s.ctid = any (array(
    select t.ctid
    from turno.seen t
    where t.at < clock_timestamp() - keep_seen
    limit batch));
  get diagnostics seen = row_count;
end
$$;

-- Notes that a sweep took place. Sweepers that run together do not wait for each other here.
create or replace function turno.sweep_note() returns void
language sql
as $$
  update turno.sweep_last s
  set at = clock_timestamp(), "by" = session_user
  where s.ctid in (
    select t.ctid
    from turno.sweep_last t
    for update skip locked)
$$;

create or replace function turno.sweep_last(out at timestamptz, out "by" text) returns record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.at, s."by"
  from turno.sweep_last s
$$;

comment on function turno.sweep_last is
  'When the store was last swept, and by which role; the time of the migration and null before the first sweep.';

-- Answers that nobody is given any more. What is due for a look and still lives is looked at again when it may be over.
create or replace function turno.once_sweep(batch integer) returns bigint
language plpgsql
as $$
declare
  many bigint;
  high bigint;
begin
  with due as materialized (
    select t.key
    from turno.once t
    where t.sweep_at < clock_timestamp()
    order by t.sweep_at
    limit batch
    for update skip locked),
  gone as (
    delete from turno.once o
    using due d
    where o.key = d.key
      and turno.once_state(o) = 'gone'
    returning o.token),
  later as (
    update turno.once o
    set sweep_at = o.until
      + case o.state when 'running' then greatest(o.ttl, turno.once_unknown_for()) else '0' end
    from due d
    where o.key = d.key
      and turno.once_state(o) <> 'gone')
  select count(*), max(g.token) into many, high
  from gone g;
  update turno.lock_floor f
  set token = high
  where f.token < high;
  return many;
end
$$;

-- An error if a role that does not own the schema would erase what is younger than the minimum: the history says who did
-- what, the archive what was published, records of completed work recognise a duplicate, and failed items are for a person to
-- look at.
create or replace function turno.sweep_check_ages(
  keep_history   interval,
  keep_completed interval,
  keep_archive   interval,
  keep_seen      interval,
  keep_failed    interval
) returns void
language plpgsql
stable
as $$
begin
  if least(keep_history, keep_archive) >= '1 day' and least(keep_completed, keep_seen, keep_failed) >= '1 hour' then
    return;
  end if;
  if pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'turno'), 'usage') then
    return;
  end if;
  raise exception 'only the owner of schema turno may sweep history and archive younger than a day, and records of completed work and failed items younger than an hour'
    using errcode = 'insufficient_privilege',
      hint = 'Raise keep_history (' || keep_history || '), keep_archive (' || keep_archive || '), keep_completed ('
        || keep_completed || '), keep_seen (' || keep_seen || ') or keep_failed (' || coalesce(keep_failed::text, 'null')
        || ').';
end
$$;

create or replace function turno.sweep(
  purge_after    interval default '1 day',
  keep_history   interval default '90 days',
  batch          integer  default 1000,
  keep_completed interval default '7 days',
  keep_archive   interval default '365 days',
  keep_seen      interval default '30 days',
  keep_failed    interval default null
) returns turno.swept
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  l    turno.lock;
  done turno.swept;
  high bigint;
  gone_events record;
begin
  if purge_after is null or purge_after < '0' or keep_history is null or keep_history < '0'
    or keep_completed is null or keep_completed < '0' or keep_archive is null or keep_archive < '0'
    or keep_seen is null or keep_seen < '0' or keep_failed < '0' or not coalesce(batch between 1 and 100000, false) then
    raise exception 'purge_after (%), keep_history (%), keep_completed (%), keep_archive (%), keep_seen (%), keep_failed (%) and batch (%) must not be negative, and batch is 1 to 100000',
      purge_after, keep_history, keep_completed, keep_archive, keep_seen, keep_failed, batch
      using errcode = 'invalid_parameter_value', hint = 'Leave them out for the defaults.';
  end if;
  perform turno.sweep_check_ages(keep_history, keep_completed, keep_archive, keep_seen, keep_failed);
  done := row(0, 0, 0, 0, 0, 0, 0, 0, 0)::turno.swept;

  for l in
    select *
    from turno.lock t
    where t.holds > 0
      and t.expires_at <= clock_timestamp()
    limit batch
    for update skip locked
  loop
    done.expired := done.expired + turno.lock_close(l, 'expired');
    if l.mode = 'shared' then
      -- Not simply free: a hold that a guard keeps is still there.
      perform turno.lock_gate(l.resource);
    else
      update turno.lock t
      set holds = 0
      where t.resource = l.resource;
    end if;
    perform turno.lock_call(l);
  end loop;

  -- Rows that nobody has wanted for long. Their highest token becomes the floor in the same
  -- transaction, so that no resource can come back below it.
  with gone as (
    delete from turno.lock t
    where t.resource in (
      select k.resource
      from turno.lock k
      where k.holds = 0
        and k.acquired_at < clock_timestamp() - purge_after
        and (k.min_until is null or k.min_until < clock_timestamp())
        and (k.waited_until is null or k.waited_until < clock_timestamp())
      limit batch
      for update skip locked)
    returning t.token)
  select count(*), max(gone.token) into done.purged, high
  from gone;
  if high is not null then
    update turno.lock_floor f
    set token = high
    where f.token < high;
  end if;

  with gone as (
    delete from turno.lock_waiter w
    where w.alive_until < clock_timestamp()
    returning 1)
  select count(*) into done.waiters
  from gone;

  delete from turno.inbox_listener m
  where m.until < clock_timestamp() - interval '1 day';

  with gone as (
    delete from turno.lock_history h
    where h.id in (
      select o.id
      from turno.lock_history o
      order by o.id
      limit batch)
      and h.at < clock_timestamp() - keep_history
    returning 1),
  undone as (
    delete from turno.deed d
    where d.id in (
      select o.id
      from turno.deed o
      order by o.id
      limit batch)
      and d.at < clock_timestamp() - keep_history
    returning 1)
  select (select count(*) from gone) + (select count(*) from undone) into done.history;

  select * into gone_events
  from turno.outbox_sweep(keep_completed, keep_archive, keep_seen, batch);
  done.completed := turno.inbox_sweep(keep_completed, batch) + gone_events.sent;
  done.archived := gone_events.archived;
  done.seen := gone_events.seen;
  done.once := turno.once_sweep(batch);
  done.failed := turno.inbox_sweep_failed(keep_failed, batch);
  perform turno.sweep_note();
  return done;
end
$$;

comment on function turno.sweep is
  'Closes expired holdings, forgets long unused resources, dead waiters, old history, records of completed items and dispatched events, old archived events, what consumers have seen, answers whose time is up and, if keep_failed is given, old failed items; at most batch of each.';

-- Function file schema_version

-- Purpose: the number of the last migration and the oldest program that may use it, for callers that may not read the table.
-- Index:   migration_pkey.

create or replace function turno.schema_version() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select max(m.version)
  from turno.migration m
$$;

create or replace function turno.schema_oldest_program() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(m.oldest_program, m.version)
  from turno.migration m
  order by m.version desc
  limit 1
$$;

comment on function turno.schema_oldest_program is
  'Programs that were built for this schema version or a later one may use the schema.';

comment on function turno.schema_version is 'The number of the last migration that was applied.';

-- Function file rights

-- Purpose: the list of public functions, each with the role that may call it. It is the only such list: grants.sql grants
--          by it, `turno doctor` compares with it, and the error for a missing right names the role that is in it.
--          turno_operator may call everything that turno_app may call.
-- Index:   none.

create or replace function turno.rights(out function text, out role text) returns setof record
language sql
immutable
security definer
set search_path = pg_catalog, pg_temp
as $$
  values
    ('access_any', 'turno_app'),
    ('access_find', 'turno_app'),
    ('adopted_calls', 'turno_app'),
    ('history', 'turno_app'),
    ('inbox_claim', 'turno_app'),
    ('inbox_claim_batch', 'turno_app'),
    ('inbox_complete', 'turno_app'),
    ('inbox_complete_batch', 'turno_app'),
    ('inbox_discard', 'turno_operator'),
    ('inbox_extend', 'turno_app'),
    ('inbox_extend_batch', 'turno_app'),
    ('inbox_fail', 'turno_app'),
    ('inbox_fail_batch', 'turno_app'),
    ('inbox_give_back', 'turno_app'),
    ('inbox_give_back_batch', 'turno_app'),
    ('inbox_idle', 'turno_app'),
    ('inbox_list', 'turno_app'),
    ('inbox_numbers', 'turno_app'),
    ('inbox_push', 'turno_app'),
    ('inbox_push_batch', 'turno_app'),
    ('inbox_push_together', 'turno_app'),
    ('inbox_queues', 'turno_app'),
    ('inbox_requeue', 'turno_operator'),
    ('inbox_reset', 'turno_operator'),
    ('inbox_rouse', 'turno_app'),
    ('inbox_stats', 'turno_app'),
    ('inbox_wait', 'turno_app'),
    ('lock_acquire', 'turno_app'),
    ('lock_acquire_all', 'turno_app'),
    ('lock_acquire_batch', 'turno_app'),
    ('lock_break', 'turno_operator'),
    ('lock_guard', 'turno_app'),
    ('lock_history', 'turno_app'),
    ('lock_leave', 'turno_app'),
    ('lock_list', 'turno_app'),
    ('lock_release', 'turno_app'),
    ('lock_release_batch', 'turno_app'),
    ('lock_renew', 'turno_app'),
    ('lock_renew_batch', 'turno_app'),
    ('lock_status', 'turno_app'),
    ('lock_wait', 'turno_app'),
    ('once_begin', 'turno_app'),
    ('once_begin_batch', 'turno_app'),
    ('once_complete', 'turno_app'),
    ('once_complete_batch', 'turno_app'),
    ('once_extend', 'turno_app'),
    ('once_forget', 'turno_operator'),
    ('once_list', 'turno_app'),
    ('once_release', 'turno_app'),
    ('once_status', 'turno_app'),
    ('outbox_claim', 'turno_app'),
    ('outbox_discard', 'turno_operator'),
    ('outbox_emit', 'turno_app'),
    ('outbox_emit_batch', 'turno_app'),
    ('outbox_find', 'turno_app'),
    ('outbox_leader', 'turno_app'),
    ('outbox_list', 'turno_app'),
    ('outbox_recover', 'turno_app'),
    ('outbox_requeue', 'turno_operator'),
    ('outbox_settle', 'turno_app'),
    ('outbox_stats', 'turno_app'),
    ('rights', 'turno_app'),
    ('schedule_state', 'turno_app'),
    ('schedule_tick', 'turno_app'),
    ('schema_oldest_program', 'turno_app'),
    ('schema_version', 'turno_app'),
    ('seen', 'turno_app'),
    ('sweep', 'turno_operator'),
    ('sweep_last', 'turno_app')
$$;

comment on function turno.rights is
  'The public functions, each with the role that may call it; turno_operator may call those of turno_app too.';

-- Only the owner touches tables and internal functions.
revoke all on schema turno from public;
revoke all on all tables in schema turno from public;
revoke all on all sequences in schema turno from public;
revoke all on all functions in schema turno from public;

update turno.migration
set oldest_program = 11
where version = 11;

-- Rights roles

-- Purpose: the roles turno_app and turno_operator, where the owner may create roles. Where it may not, an administrator
--          runs `create role turno_app nologin; create role turno_operator nologin`, and `turno migrate --repair` grants.
-- Index:   none.

do $$
declare
  wanted name;
begin
  foreach wanted in array '{turno_app,turno_operator}'::name[]
  loop
    begin
      if not exists (select from pg_roles r where r.rolname = wanted) then
        execute format('create role %I nologin', wanted);
      end if;
    exception
      -- Roles belong to the whole cluster: a migration of another database may have just created it.
      when duplicate_object or unique_violation then null;
      when insufficient_privilege then
        raise notice 'role % was not created: an administrator runs "create role % nologin", then the owner runs turno migrate --repair',
          quote_ident(wanted), quote_ident(wanted);
    end;
  end loop;
end
$$;

-- Rights grants

-- Purpose: least privilege. Each role may call the functions that turno.rights() lists for it and has no right to anything
--          else in the schema; the functions run as their owner. A role that does not exist is left out.
-- Index:   none.

do $$
declare
  grantee name;
  f       regprocedure;
begin
  for grantee in
    select r.rolname
    from pg_roles r
    where r.rolname in ('turno_app', 'turno_operator')
    order by r.rolname
  loop
    execute format('grant usage on schema turno to %I', grantee);
    -- An older version granted more.
    execute format('revoke all on all functions in schema turno from %I', grantee);
    for f in
      select p.oid::regprocedure
      from pg_proc p
      join turno.rights() t on t.function = p.proname
      where p.pronamespace = 'turno'::regnamespace
        and (t.role = grantee or grantee = 'turno_operator')
      order by p.oid
    loop
      execute format('grant execute on function %s to %I', f, grantee);
    end loop;
  end loop;
end
$$;

-- Rights service_role

-- Purpose: Supabase's server-side role gets what turno_app has, where the owner has granted it the schema
--          (`turno migrate --print --for supabase` does so).
-- Index:   none.
--
-- Each function by itself, and not the membership in turno_app: service_role does not inherit the rights of roles that
-- it is a member of (noinherit). Roles anon and authenticated get nothing.

do $$
declare
  f regprocedure;
begin
  if to_regrole('service_role') is null
     or to_regrole('turno_app') is null
     or not has_schema_privilege('service_role', 'turno', 'usage') then
    return;
  end if;
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and has_function_privilege('turno_app', p.oid, 'execute')
  loop
    execute format('grant execute on function %s to service_role', f);
  end loop;
end
$$;

commit;
