-- Purpose: claims of a queue whose time is up, the longest first. ?1 queue ?2 now ?3 limit.
-- Index: turno_inbox_claim_until.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where queue = ?1
  and held > 0
  and until <= ?2
order by until
limit ?3
