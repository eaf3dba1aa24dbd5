-- Purpose: the dead events of an ordering key, in their order. ?1 queue ?2 key. Index: turno_inbox_item_group.
select id
from turno_inbox_item
where queue = ?1
  and group_key = ?2
  and line = 4
order by id
