-- Number of messages that are not done.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from pgmq.q_bench;
