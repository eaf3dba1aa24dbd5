-- Purpose: keep whole events, those that a claim holds. ?1 ids, as JSON ?2 claim ?3 now ?4 relay. Index: the primary key.
insert into turno_outbox_archive (seq, id, key, emitted_at, dispatched_at, relay, event)
select id, key, group_key, pushed_at, ?3, ?4, payload
from turno_inbox_item
where id in (
    select value
    from json_each(?1))
  and claim = ?2
