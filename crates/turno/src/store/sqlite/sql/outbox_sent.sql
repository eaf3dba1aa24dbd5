-- Purpose: the record of one dispatched event, and all of it if it is archived. ?1 queue ?2 id ?3 not before.
-- Index: turno_inbox_done_at: nothing is dispatched before it is emitted.
select d.id, d.at, d.worker, a.key, a.event, a.emitted_at
from turno_inbox_done d
left join turno_outbox_archive a on a.seq = d.id and a.id = ?2
where d.queue = ?1
  and d.at >= ?3
  and d.key = ?2
limit 1
