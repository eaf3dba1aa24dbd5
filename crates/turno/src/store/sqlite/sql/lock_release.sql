-- Purpose: one hold less. :resource :requests. Index: the primary key.
update turno_lock
set holds    = holds - 1,
    requests = :requests
where resource = :resource
