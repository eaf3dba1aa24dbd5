-- Creates the queue to measure.
-- Parameters: none.
-- Index: none.
select pgmq.create('bench');
