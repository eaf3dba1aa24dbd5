-- Purpose: give an answer to a key that is unknown, which the caller has checked; an operator decides. The token is a new
--          one, so that the claim of the run that vanished is stale. ?1 key ?2 answer ?3 now.
-- Index: the primary key.
update turno_once
set state    = 'done',
    token    = max(?3, token + 1),
    until    = ?3 + ttl,
    sweep_at = max(sweep_at, ?3 + ttl),
    answer   = ?2
where key = ?1
