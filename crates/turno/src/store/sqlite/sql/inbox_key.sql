-- Purpose: take a key for an item, or tell which item has it. ?1 queue ?2 key ?3 item.
-- Index: the primary key.
insert into turno_inbox_key (queue, key, item)
values (?1, ?2, ?3)
on conflict (queue, key) do update
set item = item
returning item
