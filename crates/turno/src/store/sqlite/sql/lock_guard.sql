-- Purpose: fencing, enforced, in the caller's transaction: changes the row to itself if ?1 resource is
-- held with ?2 token at ?3 now. One changed row means that the token is good, and that this transaction
-- holds the database's write lock, so that nobody can take the resource over until it ends.
-- Index: the primary keys.
update turno_lock
set token = token
where resource = ?1
  and holds > 0
  and expires_at > ?3
  and case mode
    when 'exclusive' then token = ?2
    else exists (
      select 1
      from turno_lock_hold h
      where h.resource = ?1
        and h.token = ?2
        and h.expires_at > ?3)
  end
