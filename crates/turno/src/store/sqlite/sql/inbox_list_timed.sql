-- Purpose: a page of the items whose times are in a range. Reads the index of all of these, and no row.
-- Parameters: ?1 queue ?2 from ?3 to ?4 after ?5 limit. Index: turno_inbox_item_line.
select id
from turno_inbox_item
where queue = ?1
  and line in (1, 2)
  and line < 3
  and priority in (0, 1, 2, 3)
  and due between ?2 and ?3
  and id > ?4
order by id
limit ?5
