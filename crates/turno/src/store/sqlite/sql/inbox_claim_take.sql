-- Purpose: put items into a claim. ?1 their ids, as JSON ?2 claim. Index: the primary key.
update turno_inbox_item
set line  = 3,
    claim = ?2
where id in (
  select value
  from json_each(?1))
