-- Purpose: a queue's number, made if it is missing. ?1 name. Index: turno_inbox_queue's unique name.
-- A write in any case, so that a transaction that begins with it never has to become a writer later.
insert into turno_inbox_queue (name)
values (?1)
on conflict (name) do update
set name = excluded.name
returning id
