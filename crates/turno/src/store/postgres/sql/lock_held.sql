-- Purpose: the live holder of a resource, as far as anybody may know: no token. For callers who have been
--          told "busy" and ask again: reading this is all that it takes to tell them the same again, at a
--          third of the cost of the function.
-- Index:   lock_pkey.

create or replace view turno.lock_held as
select
  t.resource, t.owner, t.acquired_at, t.expires_at, t.expires_at - clock_timestamp() as remaining,
  t."user", t.service, t.description
from turno.lock t
where t.holds > 0
  and t.mode = 'exclusive'
  and t.expires_at > clock_timestamp();

comment on view turno.lock_held is 'Who holds what exclusively now; no tokens.';
