-- Purpose: reserve ids for ?1 items; answers the last of them. Index: the primary key.
update turno_inbox_serial
set last = last + ?1
where only_row = 1
returning last
