-- Purpose: one item, if it is failed. ?1 queue ?2 id. Index: the primary key.
select id, group_key
from turno_inbox_item
where id = ?2
  and queue = ?1
  and +line = 4
