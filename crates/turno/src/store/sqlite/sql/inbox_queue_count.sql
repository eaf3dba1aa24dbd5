-- Purpose: keep a queue's counts. ?1 queue ?2 waiting ?3 held ?4 failed ?5 completed: how many more of each.
-- Index: the primary key.
update turno_inbox_queue
set waiting   = waiting + ?2,
    held      = held + ?3,
    failed    = failed + ?4,
    completed = completed + ?5
where id = ?1
