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
