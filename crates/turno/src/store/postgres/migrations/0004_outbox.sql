-- The outbox. An event is an item of the queue $outbox, its ordering key the item's group, a relay the worker: so there is
-- one engine for both, and the row of a claim (inbox_batch) is the journal of what a relay has in flight.
--
-- The item's key is the event's id, its payload the event as outbox_emit.sql puts it together.

-- Names that begin with $ are Turno's own; pushes to them are rejected.
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

-- Whole events that were dispatched, if the relay is configured to keep them.
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

-- A claim returns how often the item was abandoned, and may ignore the order of groups.
alter type turno.inbox_taken add attribute abandoned integer;
drop function if exists turno.inbox_claim_batch(text, text, integer, interval, uuid, boolean);
drop function if exists turno.inbox_take(turno.inbox_cursor, integer, boolean, boolean, integer, uuid, text, timestamptz);
drop function if exists turno.inbox_line(integer, bigint, integer, text[], bigint[]);

alter type turno.swept add attribute seen bigint, add attribute archived bigint;
-- It gets more arguments.
drop function if exists turno.sweep(interval, interval, integer, interval);
