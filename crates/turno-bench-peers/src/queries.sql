-- name: apalis_postgres_left
-- Number of jobs that are not done. Completed jobs stay, with their result.
-- Parameters: none.
-- Index: none, it reads all rows.
select count(*)
from apalis.jobs
where status <> 'Done';

-- name: effectum_left
-- Number of jobs that are not done. Completed jobs are removed from this table.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from active_jobs

-- name: graphile_worker_left
-- Number of jobs that are not done. Completed jobs are deleted.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from graphile_worker._private_jobs;

-- name: pgmq_create
-- Creates the queue to measure.
-- Parameters: none.
-- Index: none.
select pgmq.create('bench');

-- name: pgmq_delete
-- Completes messages.
-- Parameters: $1 their ids.
-- Index: the extension's primary key.
select count(*)
from pgmq.delete('bench', $1::bigint[]);

-- name: pgmq_left
-- Number of messages that are not done.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from pgmq.q_bench;

-- name: pgmq_notify
-- Notifies of each insertion. Without this, the latency would be that of the throttle (default: 250 ms).
-- Parameters: none.
-- Index: none.
select pgmq.enable_notify_insert('bench', 0);

-- name: pgmq_read
-- Reads messages and hides them from other consumers for 30 seconds.
-- Parameters: $1 maximum number of messages.
-- Index: the extension's primary key, in order.
select msg_id, message
from pgmq.read('bench', 30, $1);

-- name: pgmq_send
-- Sends a batch of messages.
-- Parameters: $1 the messages.
-- Index: none.
select count(*)
from pgmq.send_batch('bench', $1::jsonb[]);

-- name: skip_locked_claim
-- Claims items for 30 seconds. Rows locked by another claim are skipped. It uses an array, because then the plan is the same
-- for one item and for many.
-- Parameters: $1 maximum number of items.
-- Index: item_visible, in order; then the primary key.
update item
set visible_at = clock_timestamp() + interval '30 seconds',
    attempt = attempt + 1
where id = any (array(
    select id
    from item
    where visible_at <= clock_timestamp()
    order by visible_at, id
    limit $1
    for update skip locked
))
returning id, attempt, payload;

-- name: skip_locked_create
-- Table of a hand-written queue.
-- Parameters: none.
-- Index: item_visible is the order of claiming.
create table item (
    id bigint generated always as identity primary key,
    visible_at timestamptz not null default clock_timestamp(),
    attempt integer not null default 0,
    payload jsonb not null
);

create index item_visible on item (visible_at, id);

-- name: skip_locked_delete
-- Completes items.
-- Parameters: $1 their ids.
-- Index: the primary key.
delete from item
where id = any($1::bigint[]);

-- name: skip_locked_left
-- Number of items that are not done.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from item;

-- name: skip_locked_lock
-- Claims items until the transaction ends.
-- Parameters: $1 maximum number of items.
-- Index: item_visible, in order.
select id, attempt, payload
from item
where visible_at <= clock_timestamp()
order by visible_at, id
limit $1
for update skip locked;

-- name: skip_locked_push
-- Stores a batch of items.
-- Parameters: $1 their payloads.
-- Index: none.
insert into item (payload)
select unnest($1::jsonb[]);

-- name: skip_locked_push_notify
-- Stores a batch of items and notifies listeners.
-- Parameters: $1 their payloads.
-- Index: none.
with stored as (
    insert into item (payload)
    select unnest($1::jsonb[])
)
select pg_notify('item', '');
