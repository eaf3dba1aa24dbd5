-- Purpose: whether a run was ended so before. ?1 key ?2 token ?3 state. Index: the primary key.
select count(*) > 0
from turno_once
where key = ?1
  and token = ?2
  and state = ?3
