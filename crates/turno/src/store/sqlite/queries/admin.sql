-- name: access_any
-- Purpose: whether an access token was ever made, revoked ones included. Index: any.
select exists (select 1 from turno_access)

-- name: access_create
-- Purpose: keep a new access token. ?1 id ?2 hash ?3 name ?4 role ?5 prefix ?6 created_at ?7 expires_at.
-- Index: the primary key.
insert into turno_access (id, hash, name, role, prefix, created_at, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: access_find
-- Purpose: an access token, with the hash that its secret must have. ?1 id. Index: the primary key.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
where id = ?1

-- name: access_list
-- Purpose: the access tokens, newest first, those that are over too. ?1 limit. Index: turno_access_created.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
order by created_at desc, id
limit ?1

-- name: access_revoke
-- Purpose: end an access token for good. ?1 id ?2 now. Index: the primary key.
update turno_access
set revoked_at = ?2
where id = ?1
  and revoked_at is null

-- name: history_first_id
-- Purpose: create the sequence with its first number, while the lock history is empty.
insert into sqlite_sequence (name, seq)
values ('turno_lock_history', 1)

-- name: history_has_end
-- Purpose: whether a lease was ended by this request, or released with all its holds, including this one:
-- then the caller repeats a request whose response was lost. :resource :token :request :hold.
-- Index: turno_lock_history_resource.
select exists (
  select 1
  from (
    select token, event, request
    from turno_lock_history
    where resource = :resource
    order by id desc
    limit 100) h
  where h.token = :token
    and (h.request = :request or (h.event = 'released' and :hold is not null)))

-- name: history_insert
-- Purpose: add an entry to the history.
insert into turno_lock_history (
  at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, actor, reason, request)
values (
  :now, :event, :resource, :token, :mode, :owner, :user, :service, :description, :host, :pid,
  :acquired_at, :expires_at, :actor, :reason, :request)

-- name: history_insert_late
-- Purpose: record that a release or a renewal came too late: once for each lease and kind, however often
-- a late holder repeats it, and only for a token that was really granted. :resource :token :what :now.
-- Index: turno_lock_history_resource.
with lately as (
  select *
  from turno_lock_history
  where resource = :resource
  order by id desc
  limit 100)
insert into turno_lock_history (
  at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, reason)
select
  :now, 'late', h.resource, h.token, h.mode, h.owner, h.user, h.service, h.description, h.host, h.pid,
  h.acquired_at, h.expires_at, :what
from lately h
where h.token = :token
  and not exists (
    select 1
    from lately o
    where o.token = :token
      and o.event = 'late'
      and o.reason = :what)
order by h.id desc
limit 1

-- name: history_insert_released
-- Purpose: add the release of an exclusive lease to the history, from its lock row. :resource :now :request
-- :late_reason. Index: the primary key. `or fail` needs no journal of the statement: an error ends the transaction.
insert or fail into turno_lock_history (
  at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, reason, request)
select
  :now, 'released', resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, iif(expires_at <= :now, :late_reason, null), :request
from turno_lock
where resource = :resource

-- name: history_list
-- Purpose: the history of all resources, queues and keys that begin with a prefix, newest first. :part :before :prefix :limit.
-- Index: the primary keys.
select *
from (
  select
    id, at, 'lock' as part, event, resource, null as count, token, mode, owner, user, service, description, host, pid,
    acquired_at, expires_at, actor, reason
  from turno_lock_history
  where (:part is null or :part = 'lock')
    and substr(resource, 1, length(:prefix)) = :prefix
    and id < :before
  order by id desc
  limit :limit)
union all
select *
from (
  select
    id, at, part, event, resource, count, null, null, null, null, null, null, null, null,
    null, null, actor, reason
  from turno_operator_action
  where (:part is null or :part = part)
    and substr(resource, 1, length(:prefix)) = :prefix
    and id < :before
  order by id desc
  limit :limit)
order by id desc
limit :limit

-- name: history_list_resource
-- Purpose: the history of one resource, queue or key, newest first. :part :resource :before :limit.
-- Index: turno_lock_history_resource, turno_operator_action_resource.
select *
from (
  select
    id, at, 'lock' as part, event, resource, null as count, token, mode, owner, user, service, description, host, pid,
    acquired_at, expires_at, actor, reason
  from turno_lock_history
  where (:part is null or :part = 'lock')
    and resource = :resource
    and id < :before
  order by id desc
  limit :limit)
union all
select *
from (
  select
    id, at, part, event, resource, count, null, null, null, null, null, null, null, null,
    null, null, actor, reason
  from turno_operator_action
  where (:part is null or :part = part)
    and resource = :resource
    and id < :before
  order by id desc
  limit :limit)
order by id desc
limit :limit

-- name: history_next_id
-- Purpose: take the next number of the lock history, so that one sequence numbers both tables. SQLite stores it here.
update sqlite_sequence
set seq = seq + 1
where name = 'turno_lock_history'
returning seq

-- name: migration_table
-- Purpose: the list of migrations that were applied. Runs before any of them.
create table if not exists turno_migration (
  version    integer primary key,
  name       text    not null,
  applied_at integer not null
) strict;

-- name: operator_action_insert
-- Purpose: add an operator action to the history.
insert into turno_operator_action (id, at, part, event, resource, count, actor, reason)
values (:id, :now, :part, :event, :resource, :count, :actor, :reason)

-- name: sweep_expired
-- Purpose: expired locks. :now :batch. No index on purpose: the expiry changes too often.
select
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests, false
from turno_lock
where holds > 0
  and not {lock_is_held}
limit :batch

-- name: sweep_floor
-- Purpose: raise the floor above the rows that sweep_purge, with the same parameters, deletes next.
-- Parameters: :before :now :batch.
update turno_lock_floor
set token = max(token, coalesce(
  (select max(token)
   from (
     select token
     from turno_lock
     where holds = 0
       and acquired_at < :before
       and not {lock_is_resting}
       and coalesce(fifo_until, 0) < :now
     order by resource
     limit :batch)),
  0))

-- name: sweep_history
-- Purpose: delete old history entries. :before :batch. Index: the primary key, which grows with time.
delete from turno_lock_history
where id in (
  select id
  from turno_lock_history
  order by id
  limit :batch)
  and at < :before

-- name: sweep_inbox_claim
-- Purpose: delete ended claims that are too old to be repeated. ?1 before ?2 batch.
-- Index: turno_inbox_claim_over.
delete from turno_inbox_claim
where id in (
  select id
  from turno_inbox_claim
  where held = 0
    and claimed_at < ?1
  order by claimed_at
  limit ?2)

-- name: sweep_inbox_done
-- Purpose: delete the records of items completed long ago. ?1 before ?2 batch. Index: turno_inbox_done_at.
delete from turno_inbox_done
where (queue, id) in (
  select queue, id
  from turno_inbox_done
  where at < ?1
  order by at, queue, id
  limit ?2)

-- name: sweep_inbox_failed
-- Purpose: items that failed too long ago, queue by queue; not the outbox's dead events, which wait for an operator.
-- Parameters: ?1 before ?2 batch. Index: turno_inbox_item_failed.
select i.queue, i.id, q.name
from turno_inbox_queue q
cross join turno_inbox_item i indexed by turno_inbox_item_failed
where substr(q.name, 1, 1) <> '$'
  and i.queue = q.id
  and i.state = 4
  and i.run_at < ?1
limit ?2

-- name: sweep_inbox_key
-- Purpose: delete the keys of the records that sweep_inbox_done, with the same parameters, deletes next.
-- Parameters: ?1 before ?2 batch. Index: turno_inbox_done_at, the primary keys.
delete from turno_inbox_key
where (queue, key) in (
  select queue, key
  from (
    select queue, key
    from turno_inbox_done
    where at < ?1
    order by at, queue, id
    limit ?2)
  where key is not null)

-- name: sweep_inbox_key_done
-- Purpose: delete the keys of items that were discarded long ago. ?1 before ?2 batch. Index: turno_inbox_key_done.
delete from turno_inbox_key
where (queue, key) in (
  select queue, key
  from turno_inbox_key
  where done_at < ?1
  order by done_at
  limit ?2)

-- name: sweep_inbox_request
-- Purpose: delete the stored answers of requests that are too old to be repeated. ?1 before ?2 batch.
-- Index: turno_inbox_request_at.
delete from turno_inbox_request
where (request, verb) in (
  select request, verb
  from turno_inbox_request
  where at < ?1
  order by at
  limit ?2)

-- name: sweep_last
-- Purpose: when the store was last swept, and by which process.
-- Index:   none: one row.
select at, "by"
from turno_sweep_last

-- name: sweep_once
-- Purpose: delete once keys whose answers have expired. ?1 now ?2 batch ?3 how long unknown is kept.
-- Index: turno_once_sweep.
delete from turno_once
where key in (
    select key
    from turno_once
    where sweep_at < ?1
    order by sweep_at
    limit ?2)
  and not (state = 'done' and until > ?1)
  and not (state = 'running' and until + max(ttl, ?3) > ?1)
returning token

-- name: sweep_once_later
-- Purpose: postpone the next check of keys that are still valid until they may have expired. ?1 now ?2 batch ?3 how long
--          unknown is kept.
-- Index: turno_once_sweep.
update turno_once
set sweep_at = case state when 'running' then until + max(ttl, ?3) else until end
where key in (
    select key
    from turno_once
    where sweep_at < ?1
    order by sweep_at
    limit ?2)

-- name: sweep_operator_actions
-- Purpose: delete old operator actions. :before :batch. Index: the primary key, which grows with time.
delete from turno_operator_action
where id in (
  select id
  from turno_operator_action
  order by id
  limit :batch)
  and at < :before

-- name: sweep_outbox_archive
-- Purpose: delete old archived events. ?1 before ?2 batch. Index: turno_outbox_archive_at.
delete from turno_outbox_archive
where seq in (
  select seq
  from turno_outbox_archive
  where dispatched_at < ?1
  order by dispatched_at
  limit ?2)

-- name: sweep_outbox_discarded
-- Purpose: delete old records of discarded events. ?1 before ?2 batch. Index: turno_outbox_discarded_at.
delete from turno_outbox_discarded
where id in (
  select id
  from turno_outbox_discarded
  where at < ?1
  order by at
  limit ?2)

-- name: sweep_outbox_discarded_key
-- Purpose: delete the ids of the records that sweep_outbox_discarded, with the same parameters, deletes next: they can
--          be emitted again. ?1 before ?2 batch. Index: turno_outbox_discarded_at, the primary keys.
delete from turno_inbox_key
where queue = (
    select id
    from turno_inbox_queue
    where name = '$outbox')
  and key in (
    select id
    from turno_outbox_discarded
    where at < ?1
    order by at
    limit ?2)

-- name: sweep_processed
-- Purpose: delete old records of processed events. ?1 before ?2 batch. Index: turno_seen_at.
delete from turno_seen
where (consumer, event_id) in (
  select consumer, event_id
  from turno_seen
  where at < ?1
  order by at
  limit ?2)

-- name: sweep_purge
-- Purpose: delete resources long unused. :before :now :batch.
delete from turno_lock
where resource in (
  select resource
  from turno_lock
  where holds = 0
    and acquired_at < :before
    and not {lock_is_resting}
    and coalesce(fifo_until, 0) < :now
  order by resource
  limit :batch)

-- name: sweep_record
-- Purpose: record that a sweep took place.
-- Index:   none: one row.
update turno_sweep_last
set at = ?1, "by" = ?2

-- name: sweep_waiters
-- Purpose: delete expired waiter registrations. :now.
delete from turno_lock_waiter
where alive_until < :now
