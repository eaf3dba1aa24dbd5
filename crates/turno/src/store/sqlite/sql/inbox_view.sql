-- Purpose: an item as people see it. ?1 id. Index: the primary keys.
select
  i.payload, i.key, i.group_key, i.priority, i.attempts, i.abandoned, i.errors, i.pushed_at, i.due,
  coalesce(c.worker, i.worker) as worker, c.claimed_at, c.until
from turno_inbox_item i
left join turno_inbox_claim c on c.id = i.claim
where i.id = ?1
