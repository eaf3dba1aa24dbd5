-- Purpose: an item is discarded. ?1 item. Index: the primary key.
delete from turno_inbox_item
where id = ?1
