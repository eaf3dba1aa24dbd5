-- Purpose: a released shared hold's min_hold keeps the resource. :resource :min_until. Index: the primary key.
update turno_lock
set min_until = max(coalesce(min_until, :min_until), :min_until)
where resource = :resource
