-- Purpose: one hold less. :resource :hold_ids :requests. Index: the primary key.
update turno_lock
set holds    = holds - 1,
    hold_ids = :hold_ids,
    requests = :requests
where resource = :resource
