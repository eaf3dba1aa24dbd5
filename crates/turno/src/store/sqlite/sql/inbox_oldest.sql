-- Purpose: since when the longest pending item of a queue has been due. ?1 queue ?2 now.
-- Index: turno_inbox_item_line, turno_inbox_claim_until.
with priorities (priority) as (values (0), (1), (2), (3)),
lines (line) as (values (0), (1), (2))
select min(since)
from (
  select (
    select i.pushed_at
    from turno_inbox_item i
    where i.queue = ?1
      and i.line = l.line
      and i.line < 3
      and i.priority = p.priority
      and i.due is null
    order by i.id
    limit 1) as since
  from priorities p
  cross join lines l
  union all
  select (
    select i.due
    from turno_inbox_item i
    where i.queue = ?1
      and i.line = l.line
      and i.line < 3
      and i.priority = p.priority
      and i.due <= ?2
    order by i.due
    limit 1)
  from priorities p
  cross join lines l
  union all
  select (
    select c.until
    from turno_inbox_claim c
    where c.queue = ?1
      and c.held > 0
      and c.until <= ?2
    order by c.until
    limit 1))
