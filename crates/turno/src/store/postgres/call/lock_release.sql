-- Calls turno.lock_release. $1 resource, $2 token, $3 hold, $4 request.
select outcome, holds
from turno.lock_release($1, $2, $3, $4)
