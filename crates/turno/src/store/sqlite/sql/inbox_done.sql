-- Purpose: the record of a completion. ?1 queue ?2 id ?3 now ?4 worker ?5 key.
insert into turno_inbox_done (queue, id, at, worker, key)
values (?1, ?2, ?3, ?4, ?5)
