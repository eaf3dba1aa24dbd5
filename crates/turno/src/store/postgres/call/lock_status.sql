-- Calls turno.lock_status. $1 resource.
select locked, resource, mode, owner, token, holds, acquired_at, expires_at, remaining, "user", service, description, host, pid, waiters
from turno.lock_status($1)
