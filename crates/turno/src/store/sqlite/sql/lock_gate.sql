-- Purpose: make the lock row tell what its holds tell: how many, and until when. :resource.
-- Index: the primary keys.
update turno_lock as t
set holds       = s.holds,
    expires_at  = s.expires_at,
    owner       = '',
    min_until   = max(coalesce(t.min_until, s.min_until), coalesce(s.min_until, t.min_until)),
    max_until   = null,
    acquired_at = coalesce(s.acquired_at, t.acquired_at),
    hold_ids    = '',
    requests    = ''
from (
  select
    count(*) as holds,
    coalesce(max(h.expires_at), 0) as expires_at,
    max(h.min_until) as min_until,
    min(h.acquired_at) as acquired_at
  from turno_lock_hold h
  where h.resource = :resource) s
where t.resource = :resource
