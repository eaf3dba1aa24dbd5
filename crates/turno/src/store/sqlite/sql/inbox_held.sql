-- Purpose: what is needed of a held item to end its attempt. ?1 id ?2 claim. Index: the primary key.
select attempts, abandoned, max_attempts, errors, group_key
from turno_inbox_item
where id = ?1
  and claim = ?2
