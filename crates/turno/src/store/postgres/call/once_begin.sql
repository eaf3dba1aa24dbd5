-- Calls turno.once_begin. $1 key, $2 fingerprint, $3 lease, $4 ttl, $5 unknown, $6 worker, $7 waits, $8 scope, $9 quota, $10 request.
select request.request, o.outcome, o.token, o.attempt, o.answer, o.began_at, o.expires_at, o.remaining, o.worker
from (select $10::uuid as request) request
cross join lateral turno.once_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, request.request) o
