-- Purpose: what is known of a key. ?1 key. Index: the primary key.
select key, fingerprint, state, token, attempt, request, worker, began_at, until, ttl, scope, late, answer
from turno_once
where key = ?1
