-- Calls turno.lock_list. $1 prefix, $2 after, $3 limit.
select locked, resource, mode, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description, host, pid, waiters
from turno.lock_list($1, $2, $3)
