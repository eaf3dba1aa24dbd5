-- Purpose: keep tokens above those of rows that are deleted. ?1 token.
update turno_lock_floor
set token = ?1
where token < ?1
