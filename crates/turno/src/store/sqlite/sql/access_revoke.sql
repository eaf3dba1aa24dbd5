-- Purpose: end an access token for good. ?1 id ?2 now. Index: the primary key.
update turno_access
set revoked_at = ?2
where id = ?1
  and revoked_at is null
