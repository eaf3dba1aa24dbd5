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
