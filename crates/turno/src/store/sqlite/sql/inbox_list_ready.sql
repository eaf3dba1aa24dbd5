-- Purpose: a page of the items without a time in a line of one priority.
-- Parameters: ?1 queue ?2 line ?3 priority ?4 after ?5 limit. Index: turno_inbox_item_line.
select id
from turno_inbox_item
where queue = ?1
  and line = ?2
  and line < 3
  and priority = ?3
  and due is null
  and id > ?4
order by id
limit ?5
