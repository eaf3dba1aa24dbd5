-- Claims of one item are made side by side, in front of the cursor of their queue (sql/inbox_claim_one.sql).
alter table turno.inbox_claim add column ahead_id bigint; -- the item, if the cursor had not reached it
drop index turno.inbox_claim_queue;
create unique index inbox_claim_queue on turno.inbox_claim (queue_id, n, ahead_id);

-- A claim that began before this migration knows nothing of ahead_id, and its advisory lock is another one. It calls one of these
-- functions, which have other names now, and so it fails instead of claiming what is claimed. Asked again, it succeeds.
drop function if exists turno.inbox_ranges(bigint[]);
drop function if exists turno.inbox_late(turno.inbox_cursor, xid8, integer, uuid, text, timestamptz);
drop function if exists turno.inbox_next_ready(integer, bigint, integer, text[], bigint[], boolean);
drop function if exists turno.inbox_take(
  turno.inbox_cursor, integer, boolean, boolean, integer, uuid, text, timestamptz, boolean);

-- Every push by turno.inbox_push made its queue one with groups, and claims of such a queue take turns. Pushes wait for this.
lock table turno.inbox_item in share mode;
update turno.inbox_kind k
set grouped = false
where k.grouped
  and not exists (
    select from turno.inbox_item i
    where i."group" is not null
      and i.queue_priority / 4 = k.queue_id)
  and not exists (
    select from turno.inbox_failed f
    where f."group" is not null
      and f.queue_priority / 4 = k.queue_id);
