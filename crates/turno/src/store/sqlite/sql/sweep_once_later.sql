-- Purpose: what was due for a look and still lives is looked at again when it may be over. ?1 now ?2 batch ?3 how long
--          unknown is kept.
-- Index: turno_once_sweep.
update turno_once
set sweep_at = case state when 'running' then until + max(ttl, ?3) else until end
where key in (
    select key
    from turno_once
    where sweep_at < ?1
    order by sweep_at
    limit ?2)
