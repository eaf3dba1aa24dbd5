-- Calls turno.lock_renew. $1 resource, $2 token, $3 ttl.
select outcome, expires_at, remaining
from turno.lock_renew($1, $2, $3, greatest($3, '24 hours'))
