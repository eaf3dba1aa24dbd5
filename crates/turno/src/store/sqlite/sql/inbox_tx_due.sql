-- Purpose: in the caller's transaction, count one item by all the spans of its time. ?1 queue ?2 due.
-- Index: the primary key.
insert into turno_inbox_due (queue, span, slot, items)
select ?1, s.span, ?2 >> s.span, 1
from (select 16 as span union all select 28 union all select 40) s
where true
on conflict (queue, span, slot) do update
set items = items + 1
