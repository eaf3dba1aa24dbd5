-- Purpose: give a claim back: what was done, nobody knows. As if its time were up. ?1 key ?2 token ?3 now.
-- Index: the primary key.
update turno_once
set until = min(until, ?3)
where key = ?1
  and token = ?2
  and state = 'running'
