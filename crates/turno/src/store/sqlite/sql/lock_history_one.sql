-- Purpose: the audit trail of one resource, newest first. :resource :before :limit.
-- Index: turno_lock_history_resource.
select
  id, at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, actor, reason
from turno_lock_history
where resource = :resource
  and id < :before
order by id desc
limit :limit
