-- Purpose: the row of a resource that is held by several: made if missing, and one token further.
-- Parameters: :resource :now. Index: the primary key.
insert into turno_lock as t (resource, token, mode, owner, holds, acquired_at, expires_at)
values (:resource, max(:now, (select token + 1 from turno_lock_floor)), 'shared', '', 0, :now, 0)
on conflict (resource) do update
set token = max(:now, t.token + 1),
    mode  = 'shared'
returning token
