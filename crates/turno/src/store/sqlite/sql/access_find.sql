-- Purpose: an access token, with the hash that its secret must have. ?1 id. Index: the primary key.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
where id = ?1
