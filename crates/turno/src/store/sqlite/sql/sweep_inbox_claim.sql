-- Purpose: forget claims that hold nothing and are not asked for again. ?1 before ?2 batch.
-- Index: turno_inbox_claim_over.
delete from turno_inbox_claim
where id in (
  select id
  from turno_inbox_claim
  where held = 0
    and claimed_at < ?1
  order by claimed_at
  limit ?2)
