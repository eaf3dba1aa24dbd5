-- Calls turno.access_find. $1 id.
select (view).id, (view).name, (view).role, (view).prefix, (view).state, (view).created_at, (view).expires_at, (view).revoked_at, hash
from turno.access_find($1)
