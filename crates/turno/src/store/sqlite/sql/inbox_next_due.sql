-- Purpose: when there may be more to claim: at once, if a claim has left something because of its limit in bytes; the next time
-- of an item that waits for nothing else; or the end of a claim. ?1 queue ?2 now.
-- Index: turno_inbox_item_line, turno_inbox_claim_until.
with priorities (priority) as (values (0), (1), (2), (3))
select min(at)
from (
  select (
    select i.due
    from turno_inbox_item i
    where i.queue = ?1
      and i.line = 1
      and i.line < 3
      and i.priority = p.priority
    order by i.due
    limit 1) as at
  from priorities p
  union all
  select ?2
  where exists (
    select 1
    from turno_inbox_item i
    where i.queue = ?1
      and i.line = 0
      and i.line < 3)
  union all
  select (
    select c.until
    from turno_inbox_claim c
    where c.queue = ?1
      and c.held > 0
    order by c.until
    limit 1))
