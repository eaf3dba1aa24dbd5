-- Purpose: a page of the keys that are in flight or unknown (?1 state), without their answers; ?2 prefix ?3 after ?4 limit
--          ?5 now ?6 how long unknown is kept.
-- Index: turno_once_open.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, null
from turno_once
where state = 'running'
  and key > ?3
  and key >= ?2
  and substr(key, 1, length(?2)) = ?2
  and case
    when until > ?5 then ?1 = 'in_flight'
    else until + max(ttl, ?6) > ?5 and ?1 = 'unknown'
  end
order by key
limit ?4
