-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- What is in flight or unknown, among millions of kept answers: for the dashboard's feed, and for lists of these states.
create index once_open on turno.once (key) where state = 'running';

-- The sweep can delete failed items that are too old, and has an argument for it.
alter type turno.swept add attribute failed bigint;
drop function if exists turno.sweep(interval, interval, integer, interval, interval, interval);
