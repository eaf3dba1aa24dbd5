-- Purpose: forget a span that has no items any more. ?1 queue ?2 span ?3 slot. Index: the primary key.
delete from turno_inbox_due
where queue = ?1
  and span = ?2
  and slot = ?3
  and items = 0
