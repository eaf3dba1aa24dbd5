-- Sends a batch of messages.
-- Parameters: $1 the messages.
-- Index: none.
select count(*)
from pgmq.send_batch('bench', $1::jsonb[]);
