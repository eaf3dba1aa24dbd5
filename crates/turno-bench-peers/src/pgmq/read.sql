-- Reads messages and hides them from other consumers for 30 seconds.
-- Parameters: $1 maximum number of messages.
-- Index: the extension's primary key, in order.
select msg_id, message
from pgmq.read('bench', 30, $1);
