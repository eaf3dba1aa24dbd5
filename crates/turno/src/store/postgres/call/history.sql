-- Calls turno.history. $1 resource, $2 before, $3 limit, $4 prefix, $5 part.
select
  id, at, part, event, resource, count, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at,
  actor, reason
from turno.history($1, $2, $3, $4, $5)
