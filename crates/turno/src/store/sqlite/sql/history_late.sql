-- Purpose: record that a release or a renewal came too late: once for each lease and kind, however often
-- a zombie repeats it, and only for a token that was really granted. :resource :token :what :now.
-- Index: turno_lock_history_resource.
with lately as (
  select *
  from turno_lock_history
  where resource = :resource
  order by id desc
  limit 100)
insert into turno_lock_history (
  at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, reason)
select
  :now, 'late', h.resource, h.token, h.mode, h.owner, h.user, h.service, h.description, h.host, h.pid,
  h.acquired_at, h.expires_at, :what
from lately h
where h.token = :token
  and not exists (
    select 1
    from lately o
    where o.token = :token
      and o.event = 'late'
      and o.reason = :what)
order by h.id desc
limit 1
