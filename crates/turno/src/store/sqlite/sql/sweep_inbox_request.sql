-- Purpose: forget what was answered to requests that nobody repeats any more. ?1 before ?2 batch.
-- Index: turno_inbox_request_at.
delete from turno_inbox_request
where (request, verb) in (
  select request, verb
  from turno_inbox_request
  where at < ?1
  order by at
  limit ?2)
