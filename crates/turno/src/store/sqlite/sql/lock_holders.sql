-- Purpose: live holdings, exclusive or shared, of one resource or of a page of those that begin with a
-- prefix. A page is so many resources, each with all of its holders.
-- Parameters: :resource (one, or null) :prefix :after :limit :now. Index: the primary keys.
with page as (
  select t.resource
  from turno_lock t
  where t.resource >= coalesce(:resource, :prefix)
    and t.resource > :after
    and (:resource is null or t.resource = :resource)
    and substr(t.resource, 1, length(:prefix)) = :prefix
    and t.holds > 0
    and t.expires_at > :now
  order by t.resource
  limit :limit)
select
  t.resource, t.mode,
  coalesce(h.owner, t.owner) as owner,
  coalesce(h.token, t.token) as token,
  coalesce(h.holds, t.holds) as holds,
  coalesce(h.acquired_at, t.acquired_at) as acquired_at,
  coalesce(h.expires_at, t.expires_at) as expires_at,
  iif(t.mode = 'shared', h.user, t.user) as user,
  iif(t.mode = 'shared', h.service, t.service) as service,
  iif(t.mode = 'shared', h.description, t.description) as description,
  iif(t.mode = 'shared', h.host, t.host) as host,
  iif(t.mode = 'shared', h.pid, t.pid) as pid,
  (select count(*)
   from turno_lock_waiter w
   where w.resource = t.resource
     and w.alive_until > :now) as waiters
from page
join turno_lock t on t.resource = page.resource
left join turno_lock_hold h
  on t.mode = 'shared'
  and h.resource = t.resource
where t.mode = 'exclusive' or h.expires_at > :now
order by t.resource, 4
