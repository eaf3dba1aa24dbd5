-- Purpose: no hold at all; a broken lock also forgets its min_hold. :resource :min_until.
-- Index: the primary key.
update turno_lock
set holds     = 0,
    min_until = :min_until
where resource = :resource
