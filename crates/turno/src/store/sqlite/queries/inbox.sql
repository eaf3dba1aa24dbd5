-- name: inbox_claim_any
-- Purpose: whether there is anything to claim or to take over; read before a transaction begins.
-- Parameters: ?1 queue ?2 now. Index: turno_inbox_item_line, turno_inbox_claim_until.
select
  exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and state = 0
      and state < 3
      and priority in (0, 1, 2, 3)
      and {inbox_is_ready})
  or exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and state = 1
      and state < 3
      and priority in (0, 1, 2, 3)
      and {inbox_is_due})
  or exists (
    select 1
    from turno_inbox_claim
    where queue = ?1
      and {inbox_claim_has_expired})

-- name: inbox_claim_any_expired
-- Purpose: whether a claim of a queue has expired. ?1 queue ?2 now. Index: turno_inbox_claim_until.
select exists (
  select 1
  from turno_inbox_claim
  where queue = ?1
    and {inbox_claim_has_expired})

-- name: inbox_claim_expired
-- Purpose: expired claims of a queue, the oldest first. ?1 queue ?2 now ?3 limit.
-- Index: turno_inbox_claim_until.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where queue = ?1
  and {inbox_claim_has_expired}
order by until
limit ?3

-- name: inbox_claim_extend
-- Purpose: extend a claim; never shorten it. ?1 claim ?2 until. Index: the primary key.
update turno_inbox_claim
set until = max(until, ?2)
where id = ?1

-- name: inbox_claim_find
-- Purpose: the claim with a token. ?1 token. Index: the token's unique index.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where token = ?1

-- name: inbox_claim_first_end
-- Purpose: when the first claim of a queue ends. ?1 queue. Index: turno_inbox_claim_until.
select min(until)
from turno_inbox_claim
where queue = ?1
  and held > 0

-- name: inbox_claim_held
-- Purpose: an item that a claim still holds, as it was claimed. ?1 id ?2 claim. Index: the primary key.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, run_at, abandoned
from turno_inbox_item
where id = ?1
  and claim = ?2

-- name: inbox_claim_insert
-- Purpose: a new claim; answers its number.
-- Parameters: ?1 token ?2 queue ?3 worker ?4 now ?5 until ?6 how many items ?7 their ids.
insert into turno_inbox_claim (token, queue, worker, claimed_at, until, held, items)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
returning id

-- name: inbox_claim_live
-- Purpose: the claims of a queue that hold something, made at ?2 or before. ?1 queue.
-- Index: turno_inbox_claim_until.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where queue = ?1
  and held > 0
  and claimed_at <= ?2
order by claimed_at

-- name: inbox_claim_ready
-- Purpose: the next items without a due time, by id.
-- Parameters: ?1 queue ?2 priority ?3 limit. Index: turno_inbox_item_line.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, run_at, abandoned
from turno_inbox_item
where queue = ?1
  and state = 0
  and state < 3
  and priority = ?2
  and {inbox_is_ready}
order by id
limit ?3

-- name: inbox_claim_release
-- Purpose: ?2 items fewer in a claim; answers whose it is. ?1 claim. Index: the primary key.
update turno_inbox_claim
set held = held - ?2
where id = ?1
returning worker

-- name: inbox_claim_take
-- Purpose: put items with consecutive ids into a claim. ?1 first id ?2 last id ?3 claim. Index: the primary key.
update turno_inbox_item
set state  = 3,
    claim = ?3
where id between ?1 and ?2

-- name: inbox_claim_timed
-- Purpose: the next items whose due time has come, by that time.
-- Parameters: ?1 queue ?2 now ?3 priority ?4 limit. Index: turno_inbox_item_line.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, run_at, abandoned
from turno_inbox_item
where queue = ?1
  and state = 1
  and state < 3
  and priority = ?3
  and {inbox_is_due}
order by run_at, id
limit ?4

-- name: inbox_complete
-- Purpose: items are done, those that the claim holds. ?1 first id ?2 last id ?3 claim. Index: the primary key.
delete from turno_inbox_item
where id between ?1 and ?2
  and claim = ?3

-- name: inbox_complete_find
-- Purpose: which of some items a claim holds, and what is left to be done for them.
-- Parameters: ?1 first id ?2 last id ?3 claim. Index: the primary key.
select id, group_key, errors, key is not null
from turno_inbox_item
where id between ?1 and ?2
  and claim = ?3

-- name: inbox_complete_in
-- Purpose: in the caller's transaction, an item is done, if it is held under this token. ?1 id ?2 token.
-- Answers what is left to be done for it; no row means that the claim is stale.
-- Index: the primary key, the token's unique index.
delete from turno_inbox_item
where id = ?1
  and claim = (
    select c.id
    from turno_inbox_claim c
    where c.token = ?2)
returning queue, claim, key, group_key, errors

-- name: inbox_done_insert
-- Purpose: the record of a completion. ?1 queue ?2 id ?3 now ?4 worker ?5 key.
insert into turno_inbox_done (queue, id, at, worker, key)
values (?1, ?2, ?3, ?4, ?5)

-- name: inbox_done_insert_batch
-- Purpose: the records of the completions of all items that inbox_complete, with the same first
-- parameters, deletes next. ?1 first id ?2 last id ?3 claim ?4 now ?5 worker. Index: the primary key.
insert into turno_inbox_done (queue, id, at, worker, key)
select queue, id, ?4, ?5, key
from turno_inbox_item
where id between ?1 and ?2
  and claim = ?3

-- name: inbox_done_insert_run
-- Purpose: one record of the completions of items without a key that have consecutive ids: a record for each takes a third of
-- the time of a worker's calls. ?1 queue ?2 first id ?3 last id, null if it is the same ?4 now ?5 worker.
insert into turno_inbox_done (queue, id, last_id, at, worker)
values (?1, ?2, ?3, ?4, ?5)

-- name: inbox_due_count
-- Purpose: count items by the span of their time. ?1 queue ?2 span ?3 slot ?4 how many more.
-- Index: the primary key.
insert into turno_inbox_due (queue, span, slot, items)
values (?1, ?2, ?3, ?4)
on conflict (queue, span, slot) do update
set items = items + excluded.items

-- name: inbox_due_count_all
-- Purpose: in the caller's transaction, count one item by all the spans of its time. ?1 queue ?2 due.
-- Index: the primary key.
insert into turno_inbox_due (queue, span, slot, items)
select ?1, s.span, ?2 >> s.span, 1
from (select 16 as span union all select 28 union all select 40) s
where true
on conflict (queue, span, slot) do update
set items = items + 1

-- name: inbox_due_delete
-- Purpose: forget a span that has no items any more. ?1 queue ?2 span ?3 slot. Index: the primary key.
delete from turno_inbox_due
where queue = ?1
  and span = ?2
  and slot = ?3
  and items = 0

-- name: inbox_error_delete
-- Purpose: forget an item's errors up to a number. ?1 item ?2 number. Index: the primary key.
delete from turno_inbox_error
where item = ?1
  and number <= ?2

-- name: inbox_error_insert
-- Purpose: record why an attempt ended. ?1 item ?2 number ?3 attempt ?4 now ?5 kind ?6 error ?7 worker.
-- Index:   the primary key. A number that is taken is written over: it must not fail the claim that takes the item over.
insert or replace into turno_inbox_error (item, number, attempt, at, kind, error, worker)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: inbox_error_list
-- Purpose: an item's errors, oldest first. ?1 item. Index: the primary key.
select attempt, at, kind, error, worker
from turno_inbox_error
where item = ?1
order by number

-- name: inbox_failed_oldest
-- Purpose: failed items, the oldest failures first. ?1 queue ?2 limit. Index: turno_inbox_item_failed.
select id, group_key
from turno_inbox_item
where queue = ?1
  and state = 4
order by run_at, id
limit ?2

-- name: inbox_failed_one
-- Purpose: one item, if it is failed. ?1 queue ?2 id. Index: the primary key.
select id, group_key
from turno_inbox_item
where id = ?2
  and queue = ?1
  and +state = 4

-- name: inbox_group_block
-- Purpose: block the unblocked items of a group again, because an earlier item may have come back.
-- Parameters: ?1 queue ?2 group. Index: turno_inbox_item_group.
update turno_inbox_item
set state = 2
where queue = ?1
  and group_key = ?2
  and state in (0, 1)

-- name: inbox_group_unblock
-- Purpose: unblock the first blocked item of a group, unless another item of it is held. ?1 queue ?2 group.
-- Index: turno_inbox_item_group.
update turno_inbox_item
set state = iif(run_at is null, 0, 1)
where id = (
    select id
    from turno_inbox_item
    where queue = ?1
      and group_key = ?2
      and state = 2
    order by id
    limit 1)
  and not exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and group_key = ?2
      and state = 3)

-- name: inbox_held_find
-- Purpose: what is needed of a held item to end its attempt. ?1 id ?2 claim. Index: the primary key.
select attempts, abandoned, max_attempts, errors, group_key
from turno_inbox_item
where id = ?1
  and claim = ?2

-- name: inbox_item_delete
-- Purpose: an item is discarded. ?1 item. Index: the primary key.
delete from turno_inbox_item
where id = ?1

-- name: inbox_item_find
-- Purpose: an item for lists and dashboards. ?1 id. Index: the primary keys.
select
  i.payload, i.key, i.group_key, i.priority, i.attempts, i.abandoned, i.errors, i.pushed_at, i.run_at,
  coalesce(c.worker, i.worker) as worker, c.claimed_at, c.until
from turno_inbox_item i
left join turno_inbox_claim c on c.id = i.claim
where i.id = ?1

-- name: inbox_item_unclaim
-- Purpose: take an item out of its claim, to be retried or as failed.
-- Parameters: ?1 id ?2 state ?3 due ?4 attempts ?5 abandoned ?6 errors ?7 worker. Index: the primary key.
update turno_inbox_item
set state      = ?2,
    run_at       = ?3,
    claim     = null,
    attempts  = ?4,
    abandoned = ?5,
    errors    = ?6,
    worker    = ?7
where id = ?1

-- name: inbox_key_done
-- Purpose: the key of an item that is discarded is kept, as that of a completed one is. ?1 queue ?2 item ?3 now.
-- Index: the primary keys.
update turno_inbox_key
set done_at = ?3
where queue = ?1
  and key = (
    select key
    from turno_inbox_item
    where id = ?2)
  and item = ?2

-- name: inbox_key_insert
-- Purpose: take a unique key for an item; returns the item that has it. ?1 queue ?2 key ?3 item.
-- Index: the primary key.
insert into turno_inbox_key (queue, key, item)
values (?1, ?2, ?3)
on conflict (queue, key) do update
set item = item
returning item

-- name: inbox_list_done
-- Purpose: records of the completed items, newest first; each is of at least one item. ?1 queue ?2 before ?3 limit.
-- Index: the primary key.
select id, coalesce(last_id, id), at, worker
from turno_inbox_done
where queue = ?1
  and id < ?2
order by id desc
limit ?3

-- name: inbox_list_failed
-- Purpose: a page of the failed items. Reads the index of all of these, and no row.
-- Parameters: ?1 queue ?2 after ?3 limit. Index: turno_inbox_item_failed.
select id
from turno_inbox_item indexed by turno_inbox_item_failed
where queue = ?1
  and state = 4
  and id > ?2
order by id
limit ?3

-- name: inbox_list_ready
-- Purpose: a page of the items of one state and priority that have no due time.
-- Parameters: ?1 queue ?2 state ?3 priority ?4 after ?5 limit. Index: turno_inbox_item_line.
select id
from turno_inbox_item
where queue = ?1
  and state = ?2
  and state < 3
  and priority = ?3
  and run_at is null
  and id > ?4
order by id
limit ?5

-- name: inbox_list_timed
-- Purpose: a page of the items whose times are in a range. Reads the index of all of these, and no row.
-- Parameters: ?1 queue ?2 from ?3 to ?4 after ?5 limit. Index: turno_inbox_item_line.
select id
from turno_inbox_item
where queue = ?1
  and state in (1, 2)
  and state < 3
  and priority in (0, 1, 2, 3)
  and run_at between ?2 and ?3
  and id > ?4
order by id
limit ?5

-- name: inbox_next_due
-- Purpose: when there may be more to claim: at once, if a claim has left items because of its limit in bytes; the next due time
-- of an item that is not blocked; or the end of a claim. ?1 queue ?2 now.
-- Index: turno_inbox_item_line, turno_inbox_claim_until.
with priorities (priority) as (values (0), (1), (2), (3))
select min(at)
from (
  select (
    select i.run_at
    from turno_inbox_item i
    where i.queue = ?1
      and i.state = 1
      and i.state < 3
      and i.priority = p.priority
    order by i.run_at
    limit 1) as at
  from priorities p
  union all
  select ?2
  where exists (
    select 1
    from turno_inbox_item i
    where i.queue = ?1
      and i.state = 0
      and i.state < 3
      and i.priority in (0, 1, 2, 3)
      and {inbox_is_ready})
  union all
  select (
    select c.until
    from turno_inbox_claim c
    where c.queue = ?1
      and c.held > 0
    order by c.until
    limit 1))

-- name: inbox_oldest_pending
-- Purpose: since when the longest pending item of a queue has been due. ?1 queue ?2 now.
-- Index: turno_inbox_item_line, turno_inbox_claim_until.
with priorities (priority) as (values (0), (1), (2), (3)),
states (state) as (values (0), (1), (2))
select min(since)
from (
  select (
    select i.pushed_at
    from turno_inbox_item i
    where i.queue = ?1
      and i.state = l.state
      and i.state < 3
      and i.priority = p.priority
      and i.run_at is null
    order by i.id
    limit 1) as since
  from priorities p
  cross join states l
  union all
  select (
    select i.run_at
    from turno_inbox_item i
    where i.queue = ?1
      and i.state = l.state
      and i.state < 3
      and i.priority = p.priority
      and i.run_at <= ?2
    order by i.run_at
    limit 1)
  from priorities p
  cross join states l
  union all
  select (
    select c.until
    from turno_inbox_claim c
    where c.queue = ?1
      and c.held > 0
      and c.until <= ?2
    order by c.until
    limit 1))

-- name: inbox_push
-- Purpose: store one item.
-- Parameters: ?1 id ?2 queue ?3 priority ?4 due or null ?5 max_attempts ?6 now ?7 key ?8 group ?9 payload.
-- Index: turno_inbox_item_group.
--
-- An item is blocked while its group has an earlier item in any state but failed.
insert into turno_inbox_item (
  id, queue, state, priority, run_at, max_attempts, pushed_at, key, group_key, payload)
values (
  ?1, ?2,
  case
    when ?8 is not null and exists (
      select 1
      from turno_inbox_item
      where queue = ?2
        and group_key = ?8
        and state < 4)
    then 2
    when ?4 is not null then 1
    else 0
  end,
  ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: inbox_queue_count
-- Purpose: keep a queue's counts. ?1 queue ?2 waiting ?3 held ?4 failed ?5 completed: how many more of each.
-- Index: the primary key.
update turno_inbox_queue
set waiting   = waiting + ?2,
    held      = held + ?3,
    failed    = failed + ?4,
    completed = completed + ?5
where id = ?1

-- name: inbox_queue_configure
-- Purpose: the settings of a queue, as JSON, or null. ?1 queue ?2 settings. Index: the primary key.
update turno_inbox_queue
set settings = ?2
where id = ?1

-- name: inbox_queue_settings
-- Purpose: a queue's number, its settings, and how many of its items are held. ?1 name.
-- Index: turno_inbox_queue's unique name.
select id, settings, held
from turno_inbox_queue
where name = ?1

-- name: inbox_rate_delete
-- Purpose: forget what was taken of a rate that has changed. ?1 queue. Index: the primary key.
delete from turno_inbox_rate
where queue = ?1

-- name: inbox_rate_find
-- Purpose: until when the rate of a queue is taken. ?1 queue. Index: the primary key.
select next_at
from turno_inbox_rate
where queue = ?1

-- name: inbox_rate_set
-- Purpose: until when the rate of a queue is taken. ?1 queue ?2 time. Index: the primary key.
insert into turno_inbox_rate (queue, next_at)
values (?1, ?2)
on conflict (queue) do update
set next_at = excluded.next_at

-- name: inbox_queue_find
-- Purpose: a queue's number. ?1 name. Index: turno_inbox_queue's unique name.
select id
from turno_inbox_queue
where name = ?1

-- name: inbox_queue_make
-- Purpose: a queue's number, made if it is missing. ?1 name. Index: turno_inbox_queue's unique name.
-- A write in any case, so that a transaction that begins with it never has to become a writer later.
insert into turno_inbox_queue (name)
values (?1)
on conflict (name) do update
set name = excluded.name
returning id

-- name: inbox_queues
-- Purpose: in which queue a claim is; none, if it is over. ?1 item ?2 token. Index: the primary keys.
select q.name
from turno_inbox_item i
join turno_inbox_claim c on c.id = i.claim
join turno_inbox_queue q on q.id = c.queue
where i.id = ?1
  and c.token = ?2

-- name: inbox_request_find
-- Purpose: what was answered to a request. ?1 request ?2 verb. Index: the primary key.
select answer
from turno_inbox_request
where request = ?1
  and verb = ?2

-- name: inbox_request_insert
-- Purpose: remember what was answered to a request. ?1 request ?2 verb ?3 now ?4 answer.
insert into turno_inbox_request (request, verb, at, answer)
values (?1, ?2, ?3, ?4)

-- name: inbox_requeue
-- Purpose: a failed item is due at once, with all its attempts before it. ?1 id ?2 state ?3 now.
-- Index: the primary key.
update turno_inbox_item
set state      = ?2,
    run_at       = ?3,
    attempts  = 0,
    abandoned = 0
where id = ?1

-- name: inbox_reserve_ids
-- Purpose: reserve ids for ?1 items; answers the last of them. Index: the primary key.
update turno_inbox_serial
set last = last + ?1
where only_row = 1
returning last

-- name: inbox_stats
-- Purpose: the counts of one queue, or of all whose names begin with a prefix, in order of their names.
-- Parameters: ?1 name or null ?2 prefix ?3 now. Index: the unique name, turno_inbox_claim_until,
--             the primary key of turno_inbox_due, turno_inbox_item_line for what is due just now.
select
  q.id, q.name, q.waiting, q.held, q.failed, q.completed,
  (select coalesce(sum(c.held), 0)
   from turno_inbox_claim c
   where c.queue = q.id
     and c.held > 0
     and c.until <= ?3) as expired,
  (select coalesce(sum(d.items), 0)
   from turno_inbox_due d
   where d.queue = q.id
     and d.span = 40) as timed,
  (select coalesce(sum(d.items), 0)
   from turno_inbox_due d
   where d.queue = q.id
     and d.span = 40
     and d.slot < (?3 >> 40))
  + (select coalesce(sum(d.items), 0)
     from turno_inbox_due d
     where d.queue = q.id
       and d.span = 28
       and d.slot >= ((?3 >> 40) << 12)
       and d.slot < (?3 >> 28))
  + (select coalesce(sum(d.items), 0)
     from turno_inbox_due d
     where d.queue = q.id
       and d.span = 16
       and d.slot >= ((?3 >> 28) << 12)
       and d.slot < (?3 >> 16))
  + (select count(*)
     from turno_inbox_item i
     where i.queue = q.id
       and i.state in (1, 2)
       and i.state < 3
       and i.priority in (0, 1, 2, 3)
       and i.run_at >= ((?3 >> 16) << 16)
       and i.run_at <= ?3) as run_at
from turno_inbox_queue q
where q.name >= coalesce(?1, ?2)
  and (q.name = ?1 or ?1 is null and substr(q.name, 1, 1) <> '$')
  and substr(q.name, 1, length(?2)) = ?2
order by q.name

-- name: schedule_begin
-- Purpose: a schedule that is new begins now. ?1 name ?2 now. Index: the primary key.
insert into turno_schedule (name, last)
values (?1, ?2)
on conflict (name) do nothing

-- name: schedule_last
-- Purpose: how far a schedule has got; null if it is new. ?1 name. Index: the primary key.
select max(last)
from turno_schedule
where name = ?1

-- name: schedule_tick
-- Purpose: move a schedule on to a tick: no row means that another instance has. ?1 name ?2 tick. Index: the primary key.
update turno_schedule
set last = ?2
where name = ?1
  and last < ?2
