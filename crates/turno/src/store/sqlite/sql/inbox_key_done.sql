-- Purpose: the key of an item that is discarded is kept, as that of a completed one is. ?1 queue ?2 item ?3 now.
-- Index: the primary keys.
update turno_inbox_key
set done_at = ?3
where queue = ?1
  and key = (
    select key
    from turno_inbox_item
    where id = ?2)
  and item = ?2
