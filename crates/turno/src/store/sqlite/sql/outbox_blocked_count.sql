-- Purpose: how many events are blocked. ?1 queue ?2 the time that does not come. Index: turno_inbox_item_line.
select count(*)
from turno_inbox_item
where queue = ?1
  and line in (1, 2)
  and line < 3
  and priority = 1
  and due = ?2
