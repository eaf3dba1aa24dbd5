-- Calls turno.lock_renew_batch. $1 resources, $2 tokens, $3 ttls.
select place, (answer).outcome, (answer).expires_at, (answer).remaining
from turno.lock_renew_batch($1, $2, $3)
