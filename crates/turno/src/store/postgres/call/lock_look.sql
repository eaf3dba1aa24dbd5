-- Reads turno.lock_held. $1 resource, $2 the owner who asks.
select 'busy' as outcome, resource, acquired_at, expires_at, remaining, "user", service, description
from turno.lock_held
where resource = $1
  and owner <> $2
