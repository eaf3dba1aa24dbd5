-- Purpose: was a lease ended by this very request, or given back with all its holds, this one among them?
-- Then it is asked again because its answer was lost. :resource :token :request :hold.
-- Index: turno_lock_history_resource.
select exists (
  select 1
  from (
    select token, event, request
    from turno_lock_history
    where resource = :resource
    order by id desc
    limit 100) h
  where h.token = :token
    and (h.request = :request or (h.event = 'released' and :hold is not null)))
