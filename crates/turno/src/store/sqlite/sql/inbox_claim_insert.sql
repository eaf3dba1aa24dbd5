-- Purpose: a new claim; answers its number.
-- Parameters: ?1 token ?2 queue ?3 worker ?4 now ?5 until ?6 how many items ?7 their ids.
insert into turno_inbox_claim (token, queue, worker, claimed_at, until, held, items)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
returning id
