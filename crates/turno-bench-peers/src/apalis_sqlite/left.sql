-- How many jobs are not done: a completed one stays, with its result.
-- Parameters: none.
-- Index: none, it reads all there are.
select count(*)
from Jobs
where status <> 'Done';
