-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- Outbox retries. An event has no limit of attempts of its own: the relay decides when it is dead. 0 stands for that.
update turno_inbox_item
set max_attempts = 0
where queue = (
  select id
  from turno_inbox_queue
  where name = '$outbox');
