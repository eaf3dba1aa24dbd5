-- Settings of queues, as JSON. Null: the queue has none.
alter table turno_inbox_queue add column settings text;

-- The rate of a queue: when its next item may begin, if each item takes its share of the time.
create table turno_inbox_rate (
  queue        integer primary key,
  next_at      integer not null
) strict;
