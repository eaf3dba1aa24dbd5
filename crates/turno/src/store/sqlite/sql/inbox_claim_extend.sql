-- Purpose: a later end, never a sooner one. ?1 claim ?2 until. Index: the primary key.
update turno_inbox_claim
set until = max(until, ?2)
where id = ?1
