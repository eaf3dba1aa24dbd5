-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- Outbox retries. An event has no limit of attempts of its own: the relay decides when it is dead. 0 stands for that.
update turno.inbox_item
set max_attempts = 0
where lane = (select q.id * 4 + 1 from turno.inbox_queue q where q.name = '$outbox');

update turno.inbox_failed
set max_attempts = 0
where lane = (select q.id * 4 + 1 from turno.inbox_queue q where q.name = '$outbox');

-- A smallint overflows after 32,767 outages of a sink. This rewrites both tables.
alter table turno.inbox_item
  alter column attempts     type integer,
  alter column abandoned    type integer,
  alter column max_attempts type integer;

alter table turno.inbox_failed
  alter column attempts     type integer,
  alter column abandoned    type integer,
  alter column max_attempts type integer;

-- It has more arguments now.
drop function if exists turno.outbox_settle(
  uuid, int8multirange, bigint[], text[], interval[], text[], int8multirange, boolean, uuid);
