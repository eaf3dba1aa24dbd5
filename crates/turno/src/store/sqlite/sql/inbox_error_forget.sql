-- Purpose: forget an item's errors up to a number. ?1 item ?2 number. Index: the primary key.
delete from turno_inbox_error
where item = ?1
  and number <= ?2
