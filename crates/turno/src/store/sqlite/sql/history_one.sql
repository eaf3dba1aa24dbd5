-- Purpose: the audit trail of one resource, queue or key, newest first. :part :resource :before :limit.
-- Index: turno_lock_history_resource, turno_deed_resource.
select *
from (
  select
    id, at, 'lock' as part, event, resource, null as count, token, mode, owner, user, service, description, host, pid,
    acquired_at, expires_at, actor, reason
  from turno_lock_history
  where (:part is null or :part = 'lock')
    and resource = :resource
    and id < :before
  order by id desc
  limit :limit)
union all
select *
from (
  select
    id, at, part, event, resource, count, null, null, null, null, null, null, null, null,
    null, null, actor, reason
  from turno_deed
  where (:part is null or :part = part)
    and resource = :resource
    and id < :before
  order by id desc
  limit :limit)
order by id desc
limit :limit
