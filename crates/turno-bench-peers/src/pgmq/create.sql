-- Makes the queue that is measured.
-- Parameters: none.
-- Index: none.
select pgmq.create('bench');
