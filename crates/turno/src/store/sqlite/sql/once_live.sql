-- Purpose: whether a scope has as many live keys as it may. ?1 scope ?2 now ?3 most ?4 how long unknown is kept.
-- Index: turno_once_scope.
select count(*) >= ?3
from (
  select 1
  from turno_once
  where scope = ?1
    and sweep_at > ?2
    and ((state = 'done' and until > ?2) or (state = 'running' and until + max(ttl, ?4) > ?2))
  limit ?3)
