-- Purpose: one lock row. :resource. Index: the primary key.
select
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests
from turno_lock
where resource = :resource
