-- Number of jobs that are not done. Completed jobs are removed from this table.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from active_jobs
