-- Notifies of every insertion: the throttle, 250 ms unless given, would be what is measured.
-- Parameters: none.
-- Index: none.
select pgmq.enable_notify_insert('bench', 0);
