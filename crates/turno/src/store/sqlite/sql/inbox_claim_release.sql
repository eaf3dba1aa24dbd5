-- Purpose: ?2 items fewer in a claim; answers whose it is. ?1 claim. Index: the primary key.
update turno_inbox_claim
set held = held - ?2
where id = ?1
returning worker
