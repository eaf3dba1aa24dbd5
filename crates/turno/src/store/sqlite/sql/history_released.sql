-- Purpose: was a lease given back by its holder? :resource :token. Index: turno_lock_history_resource.
select exists (
  select 1
  from (
    select token, event
    from turno_lock_history
    where resource = :resource
    order by id desc
    limit 100) h
  where h.token = :token
    and h.event = 'released')
