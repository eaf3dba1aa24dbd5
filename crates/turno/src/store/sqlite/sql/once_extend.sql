-- Purpose: say that the work still goes on, also after its time if nobody else has begun. ?1 key ?2 token ?3 until.
-- Index: the primary key.
update turno_once
set until    = max(until, ?3),
    sweep_at = max(sweep_at, ?3)
where key = ?1
  and token = ?2
  and state = 'running'
