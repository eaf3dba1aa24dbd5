-- Purpose: a shared hold's count, expiry and requests. :resource :token :holds :expires_at :hold_ids :requests.
-- Index: the primary key.
update turno_lock_hold
set holds      = :holds,
    expires_at = :expires_at,
    hold_ids   = :hold_ids,
    requests   = :requests
where resource = :resource
  and token = :token
