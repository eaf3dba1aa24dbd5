-- Purpose: move a schedule on to a tick: no row means that another instance has. ?1 name ?2 tick. Index: the primary key.
update turno_schedule
set last = ?2
where name = ?1
  and last < ?2
