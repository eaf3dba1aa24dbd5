-- Purpose: items are done, those that the claim holds. ?1 ids, as JSON ?2 claim. Index: the primary key.
delete from turno_inbox_item
where id in (
    select value
    from json_each(?1))
  and claim = ?2
