-- Calls turno.inbox_complete_batch for several callers. $1 tokens, $2 the items of each, as ranges, $3 a request for each. A claim
-- that another transaction is settling must not keep the other callers waiting: so this gives up soon.
with limits as materialized (
    select set_config('lock_timeout', '100ms', true) as lock_timeout)
select c.done, c.stale
from limits l
cross join lateral turno.inbox_complete_batch(
    case when l.lock_timeout is not null then $1::uuid[] end, $2::text[]::int8multirange[], $3) c
