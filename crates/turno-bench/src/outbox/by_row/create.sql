-- Purpose: the two tables of the usual implementation of an outbox.
create table outbox_message (
  id            bigint      generated always as identity primary key,
  payload       text        not null,
  occurred_at   timestamptz not null default clock_timestamp(),
  dispatched_at timestamptz,
  attempts      integer     not null default 0
);
create index outbox_message_pending on outbox_message (occurred_at) where dispatched_at is null;
create table processed_event (
  event_id     bigint      primary key,
  processed_at timestamptz not null
);
