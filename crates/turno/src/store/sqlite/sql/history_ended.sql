-- Purpose: was a lease ended by this very request? Then it is asked again because its answer was lost.
-- Parameters: :resource :token :request. Index: turno_lock_history_resource.
select exists (
  select 1
  from (
    select token, request
    from turno_lock_history
    where resource = :resource
    order by id desc
    limit 100) h
  where h.token = :token
    and h.request = :request)
