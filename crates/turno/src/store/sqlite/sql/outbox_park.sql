-- Purpose: the later events of a key are set aside as they come. ?1 item ?2 claim ?3 now. Index: the primary keys.
insert or ignore into turno_outbox_parked (key, id, at)
select group_key, key, ?3
from turno_inbox_item
where id = ?1
  and claim = ?2
  and group_key is not null
