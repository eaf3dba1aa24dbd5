-- Calls turno.inbox_push_batch. $1 queue, $2 payloads, $3 keys, $4 priorities, $5 delays, $6 run_ats, $7 groups,
-- $8 max_attempts, $9 request. The library has checked the payloads against its own limit, which may be above the
-- default one.
select ids, duplicates
from turno.inbox_push_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, 1073741823)
