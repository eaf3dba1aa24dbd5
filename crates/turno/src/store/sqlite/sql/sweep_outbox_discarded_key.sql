-- Purpose: forget the ids of the records that sweep_outbox_discarded.sql, with the same parameters, deletes next: they can
--          be emitted again. ?1 before ?2 batch. Index: turno_outbox_discarded_at, the primary keys.
delete from turno_inbox_key
where queue = (
    select id
    from turno_inbox_queue
    where name = '$outbox')
  and key in (
    select id
    from turno_outbox_discarded
    where at < ?1
    order by at
    limit ?2)
