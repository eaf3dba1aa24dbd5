-- How many jobs are not done: a completed one leaves this table.
-- Parameters: none.
-- Index: none, it counts all there are.
select count(*)
from active_jobs
