-- Purpose: one hold more for the owner, and the later expiry. :resource :expires_at :request.
-- Index: the primary key.
update turno_lock
set holds      = holds + 1,
    expires_at = max(expires_at, min(:expires_at, coalesce(max_until, :expires_at))),
    hold_ids   = hold_ids || :request
where resource = :resource
returning
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests
