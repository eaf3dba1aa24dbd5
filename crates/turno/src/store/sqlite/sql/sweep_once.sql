-- Purpose: forget answers that nobody is given any more. ?1 now ?2 batch ?3 how long unknown is kept.
-- Index: turno_once_sweep.
delete from turno_once
where key in (
    select key
    from turno_once
    where sweep_at < ?1
    order by sweep_at
    limit ?2)
  and not (state = 'done' and until > ?1)
  and not (state = 'running' and until + max(ttl, ?3) > ?1)
returning token
