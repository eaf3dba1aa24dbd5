-- Calls turno.inbox_push_batch in the caller's transaction, whatever the driver: times travel as text. $1 queue,
-- $2 payloads, $3 keys, $4 priorities, $5 delays, $6 run_ats, $7 groups, $8 max_attempts.
select ids, duplicates
from turno.inbox_push_batch($1, $2, $3, $4, $5::text[]::interval[], $6::text[]::timestamptz[], $7, $8, null, 1073741823)
