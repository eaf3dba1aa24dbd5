-- Purpose: all claims of a queue end now. ?1 queue ?2 now. Index: turno_inbox_claim_until.
update turno_inbox_claim
set until = ?2
where queue = ?1
  and held > 0
  and until > ?2
returning held
