-- Purpose: the access tokens, newest first, those that are over too. ?1 limit. Index: turno_access_created.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
order by created_at desc, id
limit ?1
