-- name: schedule_begin
-- Purpose: a schedule that is new begins now. ?1 name ?2 now. Index: the primary key.
insert into turno_schedule (name, last)
values (?1, ?2)
on conflict (name) do nothing

-- name: schedule_last
-- Purpose: how far a schedule has got; null if it is new. ?1 name. Index: the primary key.
select max(last)
from turno_schedule
where name = ?1

-- name: schedule_tick
-- Purpose: move a schedule on to a tick: no row means that another instance has. ?1 name ?2 tick. Index: the primary key.
update turno_schedule
set last = ?2
where name = ?1
  and last < ?2
