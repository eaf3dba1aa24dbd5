-- How many messages are not done.
-- Parameters: none.
-- Index: none, it counts all there are.
select count(*)
from pgmq.q_bench;
