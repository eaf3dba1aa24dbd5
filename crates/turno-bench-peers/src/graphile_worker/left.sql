-- How many jobs are not done: a completed one is deleted.
-- Parameters: none.
-- Index: none, it counts all there are.
select count(*)
from graphile_worker._private_jobs;
