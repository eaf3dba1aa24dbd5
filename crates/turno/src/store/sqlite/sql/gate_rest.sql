-- Purpose: how long a resource that nobody holds must rest; of the holds, the latest counts.
-- Parameters: :resource :min_until. Index: the primary key.
update turno_lock
set min_until = :min_until
where resource = :resource
