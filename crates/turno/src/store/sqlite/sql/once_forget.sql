-- Purpose: forget a key that is done or unknown; a person decides. ?1 key ?2 now ?3 how long unknown is kept.
-- Index: the primary key.
delete from turno_once
where key = ?1
  and ((state = 'done' and until > ?2) or (state = 'running' and until <= ?2 and until + max(ttl, ?3) > ?2))
returning token
