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

-- Whole events that were dispatched, if the relay is configured to keep them.
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
