-- Purpose: a later expiry, never past max_hold and never sooner. :resource :expires_at.
-- Index: the primary key.
update turno_lock
set expires_at = max(expires_at, min(:expires_at, coalesce(max_until, :expires_at)))
where resource = :resource
returning expires_at
