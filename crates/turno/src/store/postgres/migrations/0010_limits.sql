-- Defects found by a review under faults: outbox retries, shared locks, limits in bytes and count.

-- What is in flight or unknown, among millions of kept answers: for the dashboard's feed, and for lists of these states.
create index once_open on turno.once (key) where state = 'running';

-- It gets another argument.
drop function if exists turno.inbox_claim_batch(text, text, integer, interval, uuid, boolean, boolean);

-- A claim has a limit in bytes. So that claims need not look at the sizes of items which are all small, a queue knows how large its
-- payloads have been: a power of two, 1024 at the least.
do $$
declare
  queues  integer[];
  largest integer[];
begin
  -- Before the table is locked.
  select array_agg(s.queue_id), array_agg(s.largest) into queues, largest
  from (
    select i.lane / 4 as queue_id, max(octet_length(i.payload::text)) as largest
    from (
      select lane, payload from turno.inbox_item
      union all
      select lane, payload from turno.inbox_failed) i
    group by i.lane / 4) s;
  alter table turno.inbox_kind add column bytes integer not null default 1024;
  insert into turno.inbox_kind (queue_id, lanes, grouped, bytes)
  select u.queue_id, 0, false, (2 ^ least(ceil(log(2, u.largest)), 30))::integer
  from unnest(queues, largest) u(queue_id, largest)
  where u.largest > 1024;
end
$$;

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

-- The sweep can delete failed items that are too old, and has an argument for it.
alter type turno.swept add attribute failed bigint;
drop function if exists turno.sweep(interval, interval, integer, interval, interval, interval);
