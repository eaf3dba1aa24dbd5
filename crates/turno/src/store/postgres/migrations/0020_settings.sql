-- Settings of queues, which operators change while the queues are used.

-- Null: the queue has none, and no call looks further.
alter table turno.inbox_queue add column if not exists settings jsonb;

-- Whether the queue has settings, where a claim of one item looks after it has its turn.
alter table turno.inbox_cursor add column if not exists has_settings boolean not null default false;

-- The rate of a queue: when its next item may begin, if each item takes its share of the time.
create table if not exists turno.inbox_rate (
  queue_id     integer     primary key,
  next_at      timestamptz not null
) with (fillfactor = 50);

-- Claims of a queue that limits how many items run: when an item ends, another one may begin.
alter table turno.inbox_claim add column if not exists limited boolean not null default false;
