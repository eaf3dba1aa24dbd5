-- Purpose: note that somebody came too late: another has begun. ?1 key ?2 token. Index: the primary key.
update turno_once
set late = late + 1
where key = ?1
  and token <> ?2
