-- Purpose: the claim with a token. ?1 token. Index: the token's unique index.
select id, queue, worker, claimed_at, until, items
from turno_inbox_claim
where token = ?1
