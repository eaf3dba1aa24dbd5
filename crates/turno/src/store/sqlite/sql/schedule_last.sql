-- Purpose: how far a schedule has got; null if it is new. ?1 name. Index: the primary key.
select max(last)
from turno_schedule
where name = ?1
