-- Notifies of each insertion. Without this, the latency would be that of the throttle (default: 250 ms).
-- Parameters: none.
-- Index: none.
select pgmq.enable_notify_insert('bench', 0);
