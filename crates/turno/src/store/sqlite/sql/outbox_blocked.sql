-- Purpose: events that are dead and keep their keys waiting. ?1 queue ?2 the time that does not come ?3 after ?4 limit.
-- Index: turno_inbox_item_line.
select id, key, group_key
from turno_inbox_item
where queue = ?1
  and line in (1, 2)
  and line < 3
  and priority = 1
  and due = ?2
  and id > ?3
order by id
limit ?4
