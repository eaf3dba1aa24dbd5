-- Purpose: count items by the span of their time. ?1 queue ?2 span ?3 slot ?4 how many more.
-- Index: the primary key.
insert into turno_inbox_due (queue, span, slot, items)
values (?1, ?2, ?3, ?4)
on conflict (queue, span, slot) do update
set items = items + excluded.items
