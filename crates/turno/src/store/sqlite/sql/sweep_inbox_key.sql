-- Purpose: forget the keys of the records that sweep_inbox_done.sql, with the same parameters, deletes next.
-- Parameters: ?1 before ?2 batch. Index: turno_inbox_done_at, the primary keys.
delete from turno_inbox_key
where (queue, key) in (
  select queue, key
  from (
    select queue, key
    from turno_inbox_done
    where at < ?1
    order by at, queue, id
    limit ?2)
  where key is not null)
