-- name: by_row_create
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

-- name: by_row_fill
-- Purpose: inserts messages. $1 payload, $2 number of messages.
insert into outbox_message (payload)
select $1
from generate_series(1, $2)

-- name: by_row_mark
-- Purpose: marks a message as dispatched. $1 id.
update outbox_message
set dispatched_at = now()
where id = $1

-- name: by_row_record
-- Purpose: records an event as processed. $1 id.
insert into processed_event (event_id, processed_at)
values ($1, now())

-- name: by_row_select
-- Purpose: selects the next 50 messages.
select id, payload
from outbox_message
where dispatched_at is null
  and attempts < 5
order by occurred_at
limit 50
for update skip locked

-- name: calls_create
-- Purpose: the tables of the bare statements (bare_) and of the bare statements with the same promise (same_), which keep what
--          Turno keeps: a token, history rows, counters. A "made" table has what a statement that ends something has to name.
create table bare_item (
  id      bigint  generated always as identity primary key,
  queue   text    not null,
  payload json    not null,
  state   integer not null default 0,
  until   timestamptz
);
create index bare_item_ready on bare_item (queue, id) where state = 0;
create table same_item (
  id           bigint      generated always as identity primary key,
  queue        text        not null,
  payload      json        not null,
  state        integer     not null default 0,
  pushed_at    timestamptz not null default clock_timestamp(),
  attempts     integer     not null default 0,
  max_attempts integer     not null default 5,
  token        uuid,
  worker       text,
  claimed_at   timestamptz,
  until        timestamptz
);
create index same_item_ready on same_item (queue, id) where state = 0;
create table same_tally (
  queue     text    not null,
  items     integer not null default 0,
  completed integer not null default 0
);
create table same_done (
  token  uuid        not null,
  id     bigint      not null,
  queue  text        not null,
  at     timestamptz not null,
  worker text        not null,
  primary key (token, id)
);
create index same_done_at on same_done (queue, at);
create table bare_lock (
  resource   text primary key,
  owner      text,
  expires_at timestamptz
) with (fillfactor = 50);
create table same_lock (
  resource    text    primary key,
  token       bigint  not null default 1,
  owner       text,
  holds       integer not null default 0,
  hold        uuid,
  acquired_at timestamptz,
  expires_at  timestamptz
) with (fillfactor = 50);
create table same_lock_history (
  id          bigint      generated always as identity primary key,
  at          timestamptz not null default clock_timestamp(),
  event       text        not null,
  resource    text        not null,
  token       bigint      not null,
  owner       text,
  acquired_at timestamptz,
  expires_at  timestamptz
);
create index same_lock_history_resource on same_lock_history (resource, id);
create table bare_event (
  id      bigint generated always as identity primary key,
  type    text   not null,
  payload json   not null
);
create table same_event (
  seq        bigint      generated always as identity primary key,
  id         uuid        not null default gen_random_uuid(),
  type       text        not null,
  payload    json        not null,
  key        text,
  emitted_at timestamptz not null default clock_timestamp(),
  attempts   integer     not null default 0
);
create table bare_once (
  key    text primary key,
  answer json
) with (fillfactor = 60);
create table same_once (
  key      text        primary key,
  state    text        not null,
  token    bigint      not null,
  attempt  integer     not null,
  request  uuid        not null,
  began_at timestamptz not null,
  until    timestamptz not null,
  ttl      interval    not null,
  sweep_at timestamptz not null,
  answer   json
) with (fillfactor = 60);
create index same_once_open on same_once (key) where state = 'running';
create index same_once_sweep on same_once (sweep_at);
create table bare_made (
  n     bigint primary key,
  name  text,
  id    bigint,
  token uuid,
  fence bigint
);
create table same_made (like bare_made including all);
create table turno_made (like bare_made including all);

-- name: calls_vacuum
-- Purpose: no call has to look whether the row that it finds is committed. The items are not analyzed: with statistics that all are
--          ready, PostgreSQL would look for the first one by primary key, and pass all that are claimed.
vacuum bare_item, same_item;
vacuum analyze
  bare_lock, same_lock, bare_once, same_once, bare_made, same_made, turno_made,
  turno.lock, turno.inbox_item, turno.inbox_claim, turno.once;

-- name: calls_backends
-- Purpose: the processes of a load and how many of them execute a statement. $1 application name.
select pid, coalesce(state = 'active', true) as active
from pg_stat_activity
where application_name = $1
  and backend_type = 'client backend'

-- name: calls_wal
-- Purpose: the number of bytes of WAL ever written.
select (pg_current_wal_insert_lsn() - '0/0')::float8

-- name: calls_statements
-- Purpose: the statements of this database and the buffers that they touched. A statement's buffers include those of the statements inside.
select
  coalesce(sum(s.calls), 0)::float8,
  coalesce(sum(s.shared_blks_hit + s.shared_blks_read) filter (where s.toplevel), 0)::float8
from pg_stat_statements s
join pg_database d on d.oid = s.dbid
where d.datname = current_database()

-- name: calls_next
-- Purpose: begin of each pgbench script: a number that no other call of the run has, from 1 on without gaps.
\set i :i + 1
\set n (:i - 1) * :connections + :client_id + 1

-- name: calls_fill_queue
-- Purpose: the queue, which is not new to Turno.
select turno.inbox_push('q', '{"order": 4711, "amount": 12.5}');

-- name: calls_fill_items
-- Purpose: items to claim.
insert into bare_item (queue, payload)
select 'q', '{"order": 4711, "amount": 12.5}'
from generate_series(1, :rows);
insert into same_item (queue, payload)
select 'q', '{"order": 4711, "amount": 12.5}'
from generate_series(1, :rows);
select turno.inbox_push_batch('q', array_agg(text '{"order": 4711, "amount": 12.5}'))
from generate_series(1, :rows) g
group by g / 10000;

-- name: calls_fill_claims
-- Purpose: claimed items, of which Turno's are claimed by calls.
insert into bare_item (queue, payload, state, until)
select 'q', '{"order": 4711, "amount": 12.5}', 1, clock_timestamp() + interval '1 hour'
from generate_series(1, :rows);
insert into bare_made (n, id)
select row_number() over (order by id), id
from bare_item;
insert into same_item (queue, payload, state, attempts, token, worker, claimed_at, until)
select
  'q', '{"order": 4711, "amount": 12.5}', 1, 1, gen_random_uuid(), 'w', clock_timestamp(),
  clock_timestamp() + interval '1 hour'
from generate_series(1, :rows);
insert into same_made (n, id, token)
select row_number() over (order by id), id, token
from same_item;
select turno.inbox_push_batch('q', array_agg(text '{"order": 4711, "amount": 12.5}'))
from generate_series(1, :rows) g
group by g / 10000;

-- name: calls_make_claims
-- Purpose: claims one item.
insert into turno_made (n, name)
select :n, c.claim
from turno.inbox_claim('q', 'w', 1, '1 hour') c;

-- name: calls_fill_locks
-- Purpose: free locks, whose rows exist.
insert into bare_lock (resource)
select 'r' || g
from generate_series(1, :rows) g;
insert into same_lock (resource)
select 'r' || g
from generate_series(1, :rows) g;
insert into turno.lock (resource, token, mode, owner, holds, acquired_at, expires_at)
select 'r' || g, 1, 'exclusive', '', 0, now(), now()
from generate_series(1, :rows) g;

-- name: calls_fill_holds
-- Purpose: held locks, of which Turno's are acquired by calls.
insert into bare_lock (resource, owner, expires_at)
select 'r' || g, 'me', clock_timestamp() + interval '1 hour'
from generate_series(1, :rows) g;
insert into bare_made (n, name)
select g, 'r' || g
from generate_series(1, :rows) g;
insert into same_lock (resource, token, owner, holds, hold, acquired_at, expires_at)
select 'r' || g, 2, 'me', 1, gen_random_uuid(), clock_timestamp(), clock_timestamp() + interval '1 hour'
from generate_series(1, :rows) g;
insert into same_made (n, name, fence)
select g, 'r' || g, 2
from generate_series(1, :rows) g;
insert into turno.lock (resource, token, mode, owner, holds, acquired_at, expires_at)
select 'r' || g, 1, 'exclusive', '', 0, now(), now()
from generate_series(1, :rows) g;

-- name: calls_make_holds
-- Purpose: acquires one lock.
insert into turno_made (n, name, fence)
select :n, l.resource, l.token
from turno.lock_acquire('r' || :n, 'me', '1 hour') l;

-- name: calls_fill_runs
-- Purpose: begun runs, of which Turno's are begun by calls.
insert into bare_once (key)
select 'k' || g
from generate_series(1, :rows) g;
insert into bare_made (n, name)
select g, 'k' || g
from generate_series(1, :rows) g;
insert into same_once (key, state, token, attempt, request, began_at, until, ttl, sweep_at)
select
  'k' || g, 'running', 1, 1, gen_random_uuid(), clock_timestamp(), clock_timestamp() + interval '1 hour',
  interval '1 day', clock_timestamp() + interval '25 hours'
from generate_series(1, :rows) g;
insert into same_made (n, name, fence)
select g, 'k' || g, 1
from generate_series(1, :rows) g;

-- name: calls_make_runs
-- Purpose: begins one run.
insert into turno_made (n, name)
select :n, o.claim
from turno.once_begin('k' || :n, lease => '1 hour') o;

-- name: lock_acquire_bare
-- Purpose: a script of pgbench, as all below. Each statement must return one row, so that a call that finds nothing to do is an
--          error, and not a fast call. Where a call ends something, its arguments are from a "made" table, in all three scripts.
update bare_lock
set owner = 'me',
    expires_at = clock_timestamp() + interval '30 seconds'
where resource = 'r' || :n
  and (owner is null or expires_at <= clock_timestamp())
returning resource \gset

-- name: lock_acquire_same
update same_lock
set token = token + 1,
    owner = 'me',
    holds = 1,
    hold = gen_random_uuid(),
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + interval '30 seconds'
where resource = 'r' || :n
  and (holds = 0 or expires_at <= clock_timestamp())
returning token, expires_at \gset

-- name: lock_acquire_turno
select * from turno.lock_acquire('r' || :n, 'me') \gset

-- name: lock_release_bare
update bare_lock l
set owner = null
from bare_made m
where m.n = :n
  and l.resource = m.name
  and l.owner = 'me'
returning l.resource \gset

-- name: lock_release_same
with released as (
  update same_lock l
  set holds = 0
  from same_made m
  where m.n = :n
    and l.resource = m.name
    and l.token = m.fence
    and l.holds > 0
  returning l.resource, l.token, l.owner, l.acquired_at, l.expires_at)
insert into same_lock_history (event, resource, token, owner, acquired_at, expires_at)
select 'released', resource, token, owner, acquired_at, expires_at
from released
returning id \gset

-- name: lock_release_turno
select turno.lock_release(m.name, m.fence) as released
from turno_made m
where m.n = :n \gset

-- name: lock_pair_bare
\set n random(1, 1000 / :connections) * :connections + :client_id
update bare_lock
set owner = 'me',
    expires_at = clock_timestamp() + interval '30 seconds'
where resource = 'r' || :n
  and (owner is null or expires_at <= clock_timestamp())
returning resource \gset
update bare_lock
set owner = null
where resource = :resource
  and owner = 'me'
returning resource \gset

-- name: lock_pair_same
\set n random(1, 1000 / :connections) * :connections + :client_id
update same_lock
set token = token + 1,
    owner = 'me',
    holds = 1,
    hold = gen_random_uuid(),
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + interval '30 seconds'
where resource = 'r' || :n
  and (holds = 0 or expires_at <= clock_timestamp())
returning resource, token \gset
with released as (
  update same_lock
  set holds = 0
  where resource = :resource
    and token = :token
    and holds > 0
  returning resource, token, owner, acquired_at, expires_at)
insert into same_lock_history (event, resource, token, owner, acquired_at, expires_at)
select 'released', resource, token, owner, acquired_at, expires_at
from released
returning id \gset

-- name: lock_pair_turno
\set n random(1, 1000 / :connections) * :connections + :client_id
select resource, token from turno.lock_acquire('r' || :n, 'me') \gset
select turno.lock_release(:resource, :token) as released \gset

-- name: inbox_push_bare
insert into bare_item (queue, payload)
values ('q', '{"order": 4711, "amount": 12.5}')
returning id \gset

-- name: inbox_push_same
with counted as (
  insert into same_tally (queue, items)
  values ('q', 1))
insert into same_item (queue, payload)
values ('q', '{"order": 4711, "amount": 12.5}')
returning id \gset

-- name: inbox_push_turno
select * from turno.inbox_push('q', '{"order": 4711, "amount": 12.5}') \gset

-- name: inbox_claim_bare
update bare_item
set state = 1,
    until = clock_timestamp() + interval '30 seconds'
where id = (
  select id
  from bare_item
  where queue = 'q'
    and state = 0
  order by id
  limit 1
  for update skip locked)
returning id, payload \gset

-- name: inbox_claim_same
update same_item
set state = 1,
    attempts = attempts + 1,
    token = gen_random_uuid(),
    worker = 'w',
    claimed_at = clock_timestamp(),
    until = clock_timestamp() + interval '30 seconds'
where id = (
  select id
  from same_item
  where queue = 'q'
    and state = 0
  order by id
  limit 1
  for update skip locked)
returning id, token, attempts, payload, until \gset

-- name: inbox_claim_turno
select * from turno.inbox_claim('q', 'w') \gset

-- name: inbox_complete_bare
delete from bare_item i
using bare_made m
where m.n = :n
  and i.id = m.id
returning i.id \gset

-- name: inbox_complete_same
with ended as (
  delete from same_item i
  using same_made m
  where m.n = :n
    and i.id = m.id
    and i.token = m.token
    and i.state = 1
  returning i.id, i.token, i.worker),
counted as (
  insert into same_tally (queue, items, completed)
  select 'q', -1, 1
  from ended)
insert into same_done (token, id, queue, at, worker)
select token, id, 'q', clock_timestamp(), worker
from ended
returning id \gset

-- name: inbox_complete_turno
select turno.inbox_complete(m.name) as completed
from turno_made m
where m.n = :n \gset

-- name: inbox_pair_bare
update bare_item
set state = 1,
    until = clock_timestamp() + interval '30 seconds'
where id = (
  select id
  from bare_item
  where queue = 'q'
    and state = 0
  order by id
  limit 1
  for update skip locked)
returning id, payload \gset
delete from bare_item
where id = :id
returning id \gset

-- name: inbox_pair_same
update same_item
set state = 1,
    attempts = attempts + 1,
    token = gen_random_uuid(),
    worker = 'w',
    claimed_at = clock_timestamp(),
    until = clock_timestamp() + interval '30 seconds'
where id = (
  select id
  from same_item
  where queue = 'q'
    and state = 0
  order by id
  limit 1
  for update skip locked)
returning id, token, payload \gset
with ended as (
  delete from same_item
  where id = :id
    and token = :token
    and state = 1
  returning id, token, worker),
counted as (
  insert into same_tally (queue, items, completed)
  select 'q', -1, 1
  from ended)
insert into same_done (token, id, queue, at, worker)
select token, id, 'q', clock_timestamp(), worker
from ended
returning id \gset

-- name: inbox_pair_turno
select claim, payload from turno.inbox_claim('q', 'w') \gset
select turno.inbox_complete(:claim) as completed \gset

-- name: outbox_emit_bare
insert into bare_event (type, payload)
values ('order.placed', '{"order": 4711, "amount": 12.5}')
returning id \gset

-- name: outbox_emit_same
with counted as (
  insert into same_tally (queue, items)
  values ('$outbox', 1))
insert into same_event (type, payload)
values ('order.placed', '{"order": 4711, "amount": 12.5}')
returning id \gset

-- name: outbox_emit_turno
select turno.outbox_emit('order.placed', '{"order": 4711, "amount": 12.5}') as id \gset

-- name: once_begin_bare
insert into bare_once (key)
values ('k' || :n)
on conflict do nothing
returning key \gset

-- name: once_begin_same
insert into same_once (key, state, token, attempt, request, began_at, until, ttl, sweep_at)
values (
  'k' || :n, 'running', (extract(epoch from clock_timestamp()) * 1000000)::bigint, 1, gen_random_uuid(), clock_timestamp(),
  clock_timestamp() + interval '30 seconds', interval '1 day', clock_timestamp() + interval '1 day')
on conflict do nothing
returning key, token, until \gset

-- name: once_begin_turno
select * from turno.once_begin('k' || :n) \gset

-- name: once_complete_bare
update bare_once o
set answer = '{"status": 201}'
from bare_made m
where m.n = :n
  and o.key = m.name
returning o.key \gset

-- name: once_complete_same
update same_once o
set state = 'done',
    until = clock_timestamp() + o.ttl,
    sweep_at = greatest(o.sweep_at, clock_timestamp() + o.ttl),
    answer = '{"status": 201}'
from same_made m
where m.n = :n
  and o.key = m.name
  and o.token = m.fence
  and o.state = 'running'
returning o.key \gset

-- name: once_complete_turno
select turno.once_complete(m.name, '{"status": 201}') as completed
from turno_made m
where m.n = :n \gset

-- name: operations_fill_locks
-- Purpose: free locks, whose rows exist. $1 number of locks.
insert into turno.lock (resource, token, mode, owner, holds, acquired_at, expires_at)
select 'PRESTAMO/' || g, 1, 'exclusive', '', 0, now(), now()
from generate_series(0, $1::integer - 1) g

-- name: locks_create
-- Purpose: free locks, whose rows exist, and the tables of the statements that they are compared with.
insert into turno.lock (resource, token, mode, owner, holds, acquired_at, expires_at)
select 'PRESTAMO/' || g, 1, 'exclusive', '', 0, now(), now()
from generate_series(0, :resources - 1) g;
create table bare with (fillfactor = 50) as select * from turno.lock;
alter table bare add primary key (resource);
create table bare_history (like turno.lock_history including all);
create table shedlock (
  name       varchar(64)  primary key,
  lock_until timestamp    not null,
  locked_at  timestamp    not null,
  locked_by  varchar(255) not null
);
insert into shedlock (name, lock_until, locked_at, locked_by)
select resource, timezone('utc', acquired_at), timezone('utc', acquired_at), ''
from bare;

-- name: units_server
-- Purpose: this connection's process, and the version of the server.
select pg_backend_pid(), current_setting('server_version_num')::integer

-- name: units_connections
-- Purpose: the number of other connections.
select count(*)::float8
from pg_stat_activity
where backend_type = 'client backend'
  and pid <> pg_backend_pid()

-- name: units_dead_rows
-- Purpose: the number of row versions that updates and deletions ever made obsolete, in all databases.
select sum(tup_updated + tup_deleted)::float8
from pg_stat_database

-- name: units_buffers_written
-- Purpose: the number of buffers ever written, by the checkpointer, the background writer and all others. PostgreSQL 17 and later.
select (c.buffers_written + b.buffers_clean + o.writes)::float8
from pg_stat_checkpointer c,
  pg_stat_bgwriter b,
  (
    select coalesce(sum(writes), 0) as writes
    from pg_stat_io
    where object = 'relation'
      and backend_type not in ('checkpointer', 'background writer')
  ) o

-- name: units_buffers_written_16
-- Purpose: the same up to PostgreSQL 16.
select (buffers_checkpoint + buffers_clean + buffers_backend)::float8
from pg_stat_bgwriter

-- name: growth_sizes
-- Purpose: the sizes of Turno's tables and of their indexes, in megabytes, and their dead rows.
select
  c.relname::text,
  (pg_table_size(c.oid) / 1e6)::float8,
  (pg_indexes_size(c.oid) / 1e6)::float8,
  coalesce(pg_stat_get_dead_tuples(c.oid), 0)::float8
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'turno'
  and c.relkind = 'r'
order by pg_total_relation_size(c.oid) desc
