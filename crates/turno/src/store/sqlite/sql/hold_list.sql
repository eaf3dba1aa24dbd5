-- Purpose: the shared holds of a resource, the first to end first. :resource. Index: the primary key.
select
  resource, token, 'shared' as mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests
from turno_lock_hold
where resource = :resource
order by expires_at
