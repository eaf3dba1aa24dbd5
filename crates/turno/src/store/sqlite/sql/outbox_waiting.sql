-- Purpose: an event that waits or is held, searched for one by one. ?1 queue ?2 id ?3 now ?4 the time that does not come.
-- Index: none; it is for people.
select
  i.id,
  case
    when i.line = 3 and c.until > ?3 then 'processing'
    when i.line < 3 and i.due = ?4 then 'blocked'
    when i.line < 3 and i.due > ?3 then 'scheduled'
    else 'pending'
  end
from turno_inbox_item i
left join turno_inbox_claim c on c.id = i.claim
where i.queue = ?1
  and i.key = ?2
  and i.line < 4
limit 1
