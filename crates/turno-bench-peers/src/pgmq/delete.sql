-- Completes messages.
-- Parameters: $1 their ids.
-- Index: the extension's primary key.
select count(*)
from pgmq.delete('bench', $1::bigint[]);
