-- Purpose: a page of the keys, without their answers; in ?1 state (in_flight, done, unknown) or all, ?2 prefix ?3 after ?4 limit
--          ?5 now ?6 how long unknown is kept.
-- Index: the primary key.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, null
from turno_once
where key > ?3
  and key >= ?2
  and substr(key, 1, length(?2)) = ?2
  and case state
    when 'done' then until > ?5 and coalesce(?1, 'done') = 'done'
    when 'running' then
      case
        when until > ?5 then coalesce(?1, 'in_flight') = 'in_flight'
        else until + max(ttl, ?6) > ?5 and coalesce(?1, 'unknown') = 'unknown'
      end
    else false
  end
order by key
limit ?4
