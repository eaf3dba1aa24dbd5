-- Purpose: forget what consumers saw long ago. ?1 before ?2 batch. Index: turno_seen_at.
delete from turno_seen
where (consumer, event_id) in (
  select consumer, event_id
  from turno_seen
  where at < ?1
  order by at
  limit ?2)
