-- name: lock_acquire
-- Purpose: take a lock row exclusively. No row is changed when it may not be taken, or has a hold with another
-- token than :takes_over: its end belongs in the history, so the caller has to read it first.
-- Parameters: :resource :owner :now :expires_at :min_until :max_until :user :service :description :host
--             :pid :request :takes_over (or null)
-- Index: the primary key; the unique index of turno_lock_waiter.
--
-- The token follows the clock, and is greater than the last one.
update turno_lock
set token       = max(:now, token + 1),
    mode        = 'exclusive',
    owner       = :owner,
    holds       = 1,
    acquired_at = :now,
    expires_at  = :expires_at,
    min_until   = :min_until,
    max_until   = :max_until,
    user        = :user,
    service     = :service,
    description = :description,
    host        = :host,
    pid         = :pid,
    hold_ids    = :request,
    requests    = ''
where resource = :resource
  and {lock_is_takeable}
  and (holds = 0 or token = :takes_over)

-- name: lock_find
-- Purpose: one lock row. :resource :now. Index: the primary key.
select
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests, {lock_is_held}
from turno_lock
where resource = :resource

-- name: lock_floor_raise
-- Purpose: keep tokens above those of rows that are deleted. ?1 token.
update turno_lock_floor
set token = ?1
where token < ?1

-- name: lock_free
-- Purpose: no hold at all; a broken lock also forgets its min_hold. :resource :min_until.
-- Index: the primary key.
update turno_lock
set holds     = 0,
    min_until = :min_until
where resource = :resource

-- name: lock_guard
-- Purpose: fencing, enforced, in the caller's transaction: changes the row to itself if ?1 resource is
-- held with ?2 token at ?3 now. One changed row means that the token is good, and that this transaction
-- holds the database's write lock, so that no other process can take the resource over until it ends.
-- Index: the primary keys.
update turno_lock
set token = token
where resource = ?1
  and holds > 0
  and expires_at > ?3
  and case mode
    when 'exclusive' then token = ?2
    else exists (
      select 1
      from turno_lock_hold h
      where h.resource = ?1
        and h.token = ?2
        and h.expires_at > ?3)
  end

-- name: lock_hold_delete
-- Purpose: delete a shared hold. :resource :token. Index: the primary key.
delete from turno_lock_hold
where resource = :resource
  and token = :token

-- name: lock_hold_insert
-- Purpose: add a shared hold.
-- Parameters: :resource :token :owner :now :expires_at :min_until :max_until :user :service :description
--             :host :pid :request. Index: the primary key.
insert into turno_lock_hold (
  resource, token, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids)
values (
  :resource, :token, :owner, 1, :now, :expires_at, :min_until, :max_until,
  :user, :service, :description, :host, :pid, :request)

-- name: lock_hold_list
-- Purpose: the shared holds of a resource, the first to end first. :resource :now. Index: the primary key.
select
  resource, token, 'shared' as mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests, {lock_is_held}
from turno_lock_hold
where resource = :resource
order by expires_at

-- name: lock_hold_update
-- Purpose: a shared hold's count, expiry and requests. :resource :token :holds :expires_at :hold_ids :requests.
-- Index: the primary key.
update turno_lock_hold
set holds      = :holds,
    expires_at = :expires_at,
    hold_ids   = :hold_ids,
    requests   = :requests
where resource = :resource
  and token = :token

-- name: lock_insert
-- Purpose: take a resource that has no row exclusively. The token is greater than that of every purged row.
-- Parameters: :resource :owner :now :expires_at :min_until :max_until :user :service :description :host
--             :pid :request
insert into turno_lock (
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids)
values (
  :resource, max(:now, (select token + 1 from turno_lock_floor)), 'exclusive', :owner, 1, :now, :expires_at,
  :min_until, :max_until, :user, :service, :description, :host, :pid, :request)

-- name: lock_is_shareable
-- Purpose: whether an owner may share a lock. :resource :owner :now :permits. Index: the primary keys.
select {lock_is_shareable}
from turno_lock
where resource = :resource

-- name: lock_is_takeable
-- Purpose: whether an owner may take a lock for itself alone. :resource :owner :now. Index: the primary key.
select {lock_is_takeable}
from turno_lock
where resource = :resource

-- name: lock_list
-- Purpose: live holdings, exclusive or shared, of one resource or of a page of those that begin with a
-- prefix. A page has :limit resources, each with all of its holders.
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

-- name: lock_next_shared_token
-- Purpose: the next token of a shared lock; creates the row if it does not exist.
-- Parameters: :resource :now. Index: the primary key.
insert into turno_lock as t (resource, token, mode, owner, holds, acquired_at, expires_at)
values (:resource, max(:now, (select token + 1 from turno_lock_floor)), 'shared', '', 0, :now, 0)
on conflict (resource) do update
set token = max(:now, t.token + 1),
    mode  = 'shared'
returning token

-- name: lock_reenter
-- Purpose: one hold more for the owner, and the later expiry. :resource :expires_at :request.
-- Index: the primary key.
update turno_lock
set holds      = holds + 1,
    expires_at = max(expires_at, min(:expires_at, coalesce(max_until, :expires_at))),
    hold_ids   = hold_ids || :request
where resource = :resource
returning
  resource, token, mode, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids, requests, true

-- name: lock_release
-- Purpose: one hold less. :resource :hold_ids :requests. Index: the primary key.
update turno_lock
set holds    = holds - 1,
    hold_ids = :hold_ids,
    requests = :requests
where resource = :resource

-- name: lock_release_only_hold
-- Purpose: the end of an exclusive lease, if this is its only hold. :resource :token :hold. Index: the primary key.
update turno_lock
set holds    = 0,
    hold_ids = ''
where resource = :resource
  and token = :token
  and mode = 'exclusive'
  and holds = 1
  and hold_ids = :hold

-- name: lock_renew
-- Purpose: a later expiry, never past max_hold and never sooner. :resource :expires_at.
-- Index: the primary key.
update turno_lock
set expires_at = max(expires_at, min(:expires_at, coalesce(max_until, :expires_at)))
where resource = :resource
returning expires_at

-- name: lock_set_min_until
-- Purpose: the time before which a free resource may not be taken; the latest of its holds counts.
-- Parameters: :resource :min_until. Index: the primary key.
update turno_lock
set min_until = :min_until
where resource = :resource

-- name: lock_sum_holds
-- Purpose: update the lock row from its holds: their number and the latest expiry. :resource.
-- Index: the primary keys.
update turno_lock as t
set holds       = s.holds,
    expires_at  = s.expires_at,
    owner       = '',
    min_until   = max(coalesce(t.min_until, s.min_until), coalesce(s.min_until, t.min_until)),
    max_until   = null,
    acquired_at = coalesce(s.acquired_at, t.acquired_at),
    hold_ids    = '',
    requests    = ''
from (
  select
    count(*) as holds,
    coalesce(max(h.expires_at), 0) as expires_at,
    max(h.min_until) as min_until,
    min(h.acquired_at) as acquired_at
  from turno_lock_hold h
  where h.resource = :resource) s
where t.resource = :resource

-- name: lock_token
-- Purpose: the token of a lock row. A second statement, because `returning` makes a temporary table. :resource.
-- Index: the primary key.
select token
from turno_lock
where resource = :resource

-- name: lock_waiter_count
-- Purpose: the number of waiters of a resource. :resource :now. Index: the unique index.
select count(*)
from turno_lock_waiter
where resource = :resource
  and alive_until > :now

-- name: lock_waiter_delete_expired
-- Purpose: delete the registration of a waiter that has expired: it loses its place. :resource :owner :now.
-- Index: the unique index.
delete from turno_lock_waiter
where resource = :resource
  and owner = :owner
  and alive_until <= :now

-- name: lock_waiter_mark
-- Purpose: mark the lock row, so that other callers check for waiters first. :resource :alive_until.
-- Index: the primary key.
update turno_lock
set fifo_until = max(coalesce(fifo_until, :alive_until), :alive_until)
where resource = :resource

-- name: lock_waiter_register
-- Purpose: register a waiter, or extend its registration; an extended one keeps its ticket.
-- Parameters: :resource :owner :fifo :now :alive_until :user :service :description
-- Index: the unique index of turno_lock_waiter.
insert into turno_lock_waiter (resource, owner, fifo, since, alive_until, user, service, description)
values (:resource, :owner, :fifo, :now, :alive_until, :user, :service, :description)
on conflict (resource, owner) do update
set alive_until = excluded.alive_until,
    fifo        = excluded.fifo

-- name: lock_waiter_unregister
-- Purpose: delete the registration of a waiter. :resource :owner. Index: the unique index.
delete from turno_lock_waiter
where resource = :resource
  and owner = :owner
