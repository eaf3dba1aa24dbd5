-- Purpose: note that an answer came too late. ?1 key. Index: the primary key.
update turno_once
set late = late + 1
where key = ?1
