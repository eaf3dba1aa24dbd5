-- name: mark_processed
-- Purpose: mark an event as processed by a consumer; changes a row the first time only. ?1 consumer ?2 event ?3 now. Index: the primary key.
insert or ignore into turno_seen (consumer, event_id, at)
values (?1, ?2, ?3)

-- name: outbox_archive
-- Purpose: keep whole events, those that a claim holds. ?1 ids, as JSON ?2 claim ?3 now ?4 relay. Index: the primary key.
insert into turno_outbox_archive (seq, id, key, emitted_at, dispatched_at, relay, event)
select id, key, group_key, pushed_at, ?3, ?4, payload
from turno_inbox_item
where id in (
    select value
    from json_each(?1))
  and claim = ?2

-- name: outbox_blocked_count
-- Purpose: how many events are blocked. ?1 queue ?2 the due time of blocked events. Index: turno_inbox_item_line.
select count(*)
from turno_inbox_item
where queue = ?1
  and state in (1, 2)
  and state < 3
  and priority = 1
  and run_at = ?2

-- name: outbox_claim_any
-- Purpose: whether there is anything to claim in the order of emission, or to take over; read before a transaction begins.
-- Parameters: ?1 queue ?2 now. Index: turno_inbox_item_line, turno_inbox_claim_until.
select
  exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and state in (0, 2)
      and state < 3
      and priority = 1
      and {inbox_is_ready})
  or exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and state in (1, 2)
      and state < 3
      and priority = 1
      and {inbox_is_due})
  or exists (
    select 1
    from turno_inbox_claim
    where queue = ?1
      and {inbox_claim_has_expired})

-- name: outbox_claim_in_order
-- Purpose: the next events in the order of emission, also while another event of the same key is in flight.
-- Parameters: ?1 queue ?2 now ?3 limit. Index: turno_inbox_item_line, four times from its front.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, run_at, abandoned
from (
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and state = 0 and state < 3 and priority = 1 and {inbox_is_ready}
    order by id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and state = 1 and state < 3 and priority = 1 and {inbox_is_due}
    order by run_at, id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and state = 2 and state < 3 and priority = 1 and {inbox_is_ready}
    order by id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and state = 2 and state < 3 and priority = 1 and {inbox_is_due}
    order by run_at, id
    limit ?3))
order by id
limit ?3

-- name: outbox_dead_by_id
-- Purpose: a dead event by its id: its number and ordering key. ?1 queue ?2 id. Index: turno_inbox_item_failed_key.
select id, group_key
from turno_inbox_item
where queue = ?1
  and key = ?2
  and state = 4

-- name: outbox_dead_of_key
-- Purpose: the dead events of an ordering key, in their order. ?1 queue ?2 key. Index: turno_inbox_item_group.
select id
from turno_inbox_item
where queue = ?1
  and group_key = ?2
  and state = 4
order by id

-- name: outbox_discard_insert
-- Purpose: record that an event was discarded. ?1 id ?2 now ?3 by.
insert or ignore into turno_outbox_discarded (id, at, "by")
values (?1, ?2, ?3)

-- name: outbox_find_discarded
-- Purpose: when an event was discarded, and by which operator. ?1 id. Index: the primary key.
select at, "by"
from turno_outbox_discarded
where id = ?1

-- name: outbox_find_dispatched
-- Purpose: the record of one dispatched event, and all of it if it is archived. ?1 queue ?2 id ?3 not before.
-- Index: turno_inbox_done_at: nothing is dispatched before it is emitted.
select d.id, d.at, d.worker, a.key, a.event, a.emitted_at
from turno_inbox_done d
left join turno_outbox_archive a on a.seq = d.id and a.id = ?2
where d.queue = ?1
  and d.at >= ?3
  and d.key = ?2
limit 1

-- name: outbox_find_waiting
-- Purpose: an event that waits or is held, searched for one by one. ?1 queue ?2 id ?3 now ?4 the due time of blocked events.
-- Index: none; only operators call it.
select
  i.id,
  case
    when i.state = 3 and c.until > ?3 then 'processing'
    when i.state < 3 and i.run_at = ?4 then 'blocked'
    when i.state < 3 and i.run_at > ?3 then 'scheduled'
    else 'pending'
  end
from turno_inbox_item i
left join turno_inbox_claim c on c.id = i.claim
where i.queue = ?1
  and i.key = ?2
  and i.state < 4
limit 1

-- name: outbox_is_parked
-- Purpose: whether a key is parked. ?1 key. Index: the primary key.
select exists (
  select 1
  from turno_outbox_parked
  where key = ?1)

-- name: outbox_list_blocked
-- Purpose: events that are dead and keep their keys waiting. ?1 queue ?2 the due time of blocked events ?3 after ?4 limit.
-- Index: turno_inbox_item_line.
select id, key, group_key
from turno_inbox_item
where queue = ?1
  and state in (1, 2)
  and state < 3
  and priority = 1
  and run_at = ?2
  and id > ?3
order by id
limit ?4

-- name: outbox_list_dispatched
-- Purpose: a page of the dispatched events, newest first. ?1 queue ?2 before ?3 limit. Index: the primary key.
select id, key, at, worker
from turno_inbox_done
where queue = ?1
  and id < ?2
order by id desc
limit ?3

-- name: outbox_park
-- Purpose: park the ordering key of an event: its later events become dead too. ?1 item ?2 claim ?3 now. Index: the primary keys.
insert or ignore into turno_outbox_parked (key, id, at)
select group_key, key, ?3
from turno_inbox_item
where id = ?1
  and claim = ?2
  and group_key is not null

-- name: outbox_parked_count
-- Purpose: how many keys are parked.
select count(*)
from turno_outbox_parked

-- name: outbox_recover
-- Purpose: all claims of a queue end now. ?1 queue ?2 now. Index: turno_inbox_claim_until.
update turno_inbox_claim
set until = ?2
where queue = ?1
  and held > 0
  and until > ?2
returning held

-- name: outbox_unblock
-- Purpose: a blocked event is due at once, with all its attempts before it. ?1 id ?2 now. Index: the primary key.
update turno_inbox_item
set state      = iif(group_key is null, 1, 2),
    run_at       = ?2,
    attempts  = 0,
    abandoned = 0
where id = ?1

-- name: outbox_unpark
-- Purpose: a key is no longer parked. ?1 key. Index: the primary key.
delete from turno_outbox_parked
where key = ?1
