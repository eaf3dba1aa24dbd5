-- The inbox. An item is written twice in its life, when it is pushed and when it is done: claiming it
-- touches other rows only.
--
-- A claim is one row for many items (inbox_batch), and a cursor for each queue and priority says how far
-- claiming has got (inbox_cursor). So a claim does not look at what lies behind it, dead or alive, and
-- costs the same with a thousand items or with millions, and under a snapshot that a session holds open.

create table turno.inbox_queue (
  id           integer     generated always as identity primary key,
  name         text        collate "C" not null unique,
  idle_until   timestamptz                     -- an idle worker listens until then: a push must call
) with (fillfactor = 50);

-- What a queue's items have had, so that claims need not look for what never was. The first push of a kind adds a row,
-- which never changes: pushes do not wait for each other.
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
-- The queue and the group in one number, which is compared faster than text; queries compare the group as well.
create index inbox_item_group on turno.inbox_item (hashtextextended("group", lane / 4), id) where "group" is not null;

-- Numbers are assigned one at a time, to sessions that have a transaction id already: see inbox_late.
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
-- so that reading it never walks along versions that an old snapshot keeps alive.
create table turno.inbox_cursor (
  queue_id     integer     not null,
  n            bigint      not null,
  at_id        bigint[]    not null,           -- for each priority: everything up to here has been seen
  floor_id     bigint[]    not null,           -- nothing can appear any more up to here
  floor_n      bigint      not null,           -- the claim that was the last then
  mark_id      bigint[],                       -- becomes the floor when all transactions
  mark_n       bigint,
  mark_xid     xid8,                           -- up to this one have ended
  late_at      timestamptz not null,           -- time of the last look behind the cursor
  late_cost    interval    not null,           -- and how long that took
  due_from     timestamptz not null,           -- nothing is due before this
  due_at       timestamptz not null,           -- time of the last look from the beginning
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
-- now and then. So pushes do not wait for each other.
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
