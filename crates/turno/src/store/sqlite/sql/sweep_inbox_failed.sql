-- Purpose: items that failed too long ago, queue by queue; not the outbox's dead events, which wait for a person.
-- Parameters: ?1 before ?2 batch. Index: turno_inbox_item_failed.
select i.queue, i.id, q.name
from turno_inbox_queue q
cross join turno_inbox_item i indexed by turno_inbox_item_failed
where substr(q.name, 1, 1) <> '$'
  and i.queue = q.id
  and i.line = 4
  and i.due < ?1
limit ?2
