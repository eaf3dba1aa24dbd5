-- Purpose: which of some items a claim holds, and what is left to be done for them.
-- Parameters: ?1 ids, as JSON ?2 claim. Index: the primary key.
select id, group_key, errors
from turno_inbox_item
where id in (
    select value
    from json_each(?1))
  and claim = ?2
