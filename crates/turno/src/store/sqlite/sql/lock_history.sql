-- Purpose: the audit trail of all that begin with a prefix, newest first. :before :prefix :limit.
-- Index: the primary key.
select
  id, at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, actor, reason
from turno_lock_history
where id < :before
  and substr(resource, 1, length(:prefix)) = :prefix
order by id desc
limit :limit
