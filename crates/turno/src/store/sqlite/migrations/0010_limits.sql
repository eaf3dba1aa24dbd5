-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- What is in flight or unknown, among millions of kept answers: for the dashboard's feed, and for lists of these states.
create index turno_once_open on turno_once (key) where state = 'running';

-- Outbox retries. An event has no limit of attempts of its own: the relay decides when it is dead. 0 stands for that.
update turno_inbox_item
set max_attempts = 0
where queue = (
  select id
  from turno_inbox_queue
  where name = '$outbox');

-- Keys of discarded items, which have no record of a completion: since when, until they are swept.
alter table turno_inbox_key add column done_at integer;
create index turno_inbox_key_done on turno_inbox_key (done_at) where done_at is not null;
