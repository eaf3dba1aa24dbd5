-- When a lock may be taken and when an item may be claimed is decided by one function each (sql/lock_acquire.sql,
-- sql/inbox_attempt.sql). No table changes; the functions that had copies of the rules are dropped.
drop function if exists turno.lock_is_free(turno.lock);
drop function if exists turno.lock_may_share(turno.lock, text, integer);
