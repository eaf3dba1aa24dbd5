-- Purpose: an item is done. ?1 id. Index: the primary key.
delete from turno_inbox_item
where id = ?1
