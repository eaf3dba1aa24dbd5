-- Number of jobs that are not done. Completed jobs are deleted.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from graphile_worker._private_jobs;
