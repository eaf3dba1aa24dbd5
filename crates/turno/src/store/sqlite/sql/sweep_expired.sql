-- Purpose: holdings whose time is up. :now :batch. No index, on purpose: the expiry changes too often.
select
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests
from turno_lock
where holds > 0
  and expires_at <= :now
limit :batch
