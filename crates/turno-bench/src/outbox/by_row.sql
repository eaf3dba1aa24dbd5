-- name: create
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

-- name: fill
-- Purpose: inserts messages. $1 payload, $2 number of messages.
insert into outbox_message (payload)
select $1
from generate_series(1, $2)

-- name: mark
-- Purpose: marks a message as dispatched. $1 id.
update outbox_message
set dispatched_at = now()
where id = $1

-- name: record
-- Purpose: records an event as processed. $1 id.
insert into processed_event (event_id, processed_at)
values ($1, now())

-- name: select
-- Purpose: selects the next 50 messages.
select id, payload
from outbox_message
where dispatched_at is null
  and attempts < 5
order by occurred_at
limit 50
for update skip locked
