-- Purpose: put an item into a claim. ?1 id ?2 claim. Index: the primary key.
update turno_inbox_item
set line  = 3,
    claim = ?2
where id = ?1
