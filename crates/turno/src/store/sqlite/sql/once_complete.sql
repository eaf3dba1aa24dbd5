-- Purpose: end a run with its answer. ?1 key ?2 token ?3 answer ?4 ttl, or null ?5 now. Index: the primary key.
update turno_once
set state    = 'done',
    until    = ?5 + coalesce(?4, ttl),
    sweep_at = max(sweep_at, ?5 + coalesce(?4, ttl)),
    answer   = ?3
where key = ?1
  and token = ?2
  and state = 'running'
