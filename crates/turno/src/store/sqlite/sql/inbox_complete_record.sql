-- Purpose: the records of the completions of all items that inbox_complete.sql, with the same first
-- parameters, deletes next. ?1 ids, as JSON ?2 claim ?3 now ?4 worker. Index: the primary key.
insert into turno_inbox_done (queue, id, at, worker, key)
select queue, id, ?3, ?4, key
from turno_inbox_item
where id in (
    select value
    from json_each(?1))
  and claim = ?2
