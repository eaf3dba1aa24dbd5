-- Purpose: a dead event by its id: its number and ordering key. ?1 queue ?2 id. Index: turno_inbox_item_failed_key.
select id, group_key
from turno_inbox_item
where queue = ?1
  and key = ?2
  and line = 4
