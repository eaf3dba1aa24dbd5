-- Calls turno.inbox_push_together. $1 queues, $2 sizes, $3 requests, $4 payloads, $5 keys, $6 priorities, $7 delays,
-- $8 run_ats, $9 groups, $10 max_attempts. The library has checked the payloads against its own limit.
select place, ids, duplicates
from turno.inbox_push_together($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1073741823)
