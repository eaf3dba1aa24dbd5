-- Purpose: a schedule that is new begins now. ?1 name ?2 now. Index: the primary key.
insert into turno_schedule (name, last)
values (?1, ?2)
on conflict (name) do nothing
