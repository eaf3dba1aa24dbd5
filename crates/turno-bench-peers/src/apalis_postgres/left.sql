-- Number of jobs that are not done. Completed jobs stay, with their result.
-- Parameters: none.
-- Index: none, it reads all rows.
select count(*)
from apalis.jobs
where status <> 'Done';
