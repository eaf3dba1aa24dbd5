-- Purpose: what is next among the items that have no time: by id.
-- Parameters: ?1 queue ?2 priority ?3 limit. Index: turno_inbox_item_line.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, due, abandoned
from turno_inbox_item
where queue = ?1
  and line = 0
  and line < 3
  and priority = ?2
  and due is null
order by id
limit ?3
