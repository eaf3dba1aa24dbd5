-- Calls turno.once_begin_batch. $1 keys, $2 fingerprints, $3 leases, $4 ttls, $5 unknowns, $6 workers, $7 waits, $8 scopes, $9 quotas, $10 requests.
select
  request, (answer).outcome, (answer).token, (answer).attempt, (answer).answer, (answer).began_at, (answer).expires_at,
  (answer).remaining, (answer).worker
from turno.once_begin_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
