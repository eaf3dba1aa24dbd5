-- Purpose: record why an attempt ended. ?1 item ?2 number ?3 attempt ?4 now ?5 kind ?6 error ?7 worker.
-- Index:   the primary key. A number that is taken is written over: it must not fail the claim that takes the item over.
insert or replace into turno_inbox_error (item, number, attempt, at, kind, error, worker)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
