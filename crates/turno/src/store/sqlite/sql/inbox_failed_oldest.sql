-- Purpose: failed items, the oldest failures first. ?1 queue ?2 limit. Index: turno_inbox_item_failed.
select id, group_key
from turno_inbox_item
where queue = ?1
  and line = 4
order by due, id
limit ?2
