-- Calls turno.lock_history. $1 resource, $2 before, $3 limit, $4 prefix.
select id, at, event, resource, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at, actor, reason
from turno.lock_history($1, $2, $3, $4)
