-- Purpose: an item that a claim still holds, as it was claimed. ?1 id ?2 claim. Index: the primary key.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, due, abandoned
from turno_inbox_item
where id = ?1
  and claim = ?2
