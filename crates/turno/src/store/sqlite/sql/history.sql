-- Purpose: the audit trail of all that begin with a prefix, newest first. :part :before :prefix :limit.
-- Index: the primary keys.
select *
from (
  select
    id, at, 'lock' as part, event, resource, null as count, token, mode, owner, user, service, description, host, pid,
    acquired_at, expires_at, actor, reason
  from turno_lock_history
  where (:part is null or :part = 'lock')
    and substr(resource, 1, length(:prefix)) = :prefix
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
    and substr(resource, 1, length(:prefix)) = :prefix
    and id < :before
  order by id desc
  limit :limit)
order by id desc
limit :limit
