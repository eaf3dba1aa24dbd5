-- Purpose: what is next among the items that have a time, when it has come: by that time.
-- Parameters: ?1 queue ?2 priority ?3 now ?4 limit. Index: turno_inbox_item_line.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, due, abandoned
from turno_inbox_item
where queue = ?1
  and line = 1
  and line < 3
  and priority = ?2
  and due <= ?3
order by due, id
limit ?4
