-- Purpose: the counts of one queue, or of all whose names begin with a prefix, in order of their names.
-- Parameters: ?1 name or null ?2 prefix ?3 now. Index: the unique name, turno_inbox_claim_until,
--             the primary key of turno_inbox_due, turno_inbox_item_line for what is due just now.
select
  q.id, q.name, q.waiting, q.held, q.failed, q.completed,
  (select coalesce(sum(c.held), 0)
   from turno_inbox_claim c
   where c.queue = q.id
     and c.held > 0
     and c.until <= ?3) as expired,
  (select coalesce(sum(d.items), 0)
   from turno_inbox_due d
   where d.queue = q.id
     and d.span = 40) as timed,
  (select coalesce(sum(d.items), 0)
   from turno_inbox_due d
   where d.queue = q.id
     and d.span = 40
     and d.slot < (?3 >> 40))
  + (select coalesce(sum(d.items), 0)
     from turno_inbox_due d
     where d.queue = q.id
       and d.span = 28
       and d.slot >= ((?3 >> 40) << 12)
       and d.slot < (?3 >> 28))
  + (select coalesce(sum(d.items), 0)
     from turno_inbox_due d
     where d.queue = q.id
       and d.span = 16
       and d.slot >= ((?3 >> 28) << 12)
       and d.slot < (?3 >> 16))
  + (select count(*)
     from turno_inbox_item i
     where i.queue = q.id
       and i.line in (1, 2)
       and i.line < 3
       and i.priority in (0, 1, 2, 3)
       and i.due >= ((?3 >> 16) << 16)
       and i.due <= ?3) as due
from turno_inbox_queue q
where q.name >= coalesce(?1, ?2)
  and (q.name = ?1 or ?1 is null and substr(q.name, 1, 1) <> '$')
  and substr(q.name, 1, length(?2)) = ?2
order by q.name
