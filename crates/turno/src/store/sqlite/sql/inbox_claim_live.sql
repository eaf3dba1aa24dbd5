-- Purpose: the claims of a queue that hold something, made at ?2 or before. ?1 queue.
-- Index: turno_inbox_claim_until.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where queue = ?1
  and held > 0
  and claimed_at <= ?2
order by claimed_at
