-- Purpose: a page of the failed items. Reads the index of all of these, and no row.
-- Parameters: ?1 queue ?2 after ?3 limit. Index: turno_inbox_item_failed.
select id
from turno_inbox_item indexed by turno_inbox_item_failed
where queue = ?1
  and line = 4
  and id > ?2
order by id
limit ?3
