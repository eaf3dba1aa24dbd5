-- Purpose: a page of the dispatched events, newest first. ?1 queue ?2 before ?3 limit. Index: the primary key.
select id, key, at, worker
from turno_inbox_done
where queue = ?1
  and id < ?2
order by id desc
limit ?3
