-- Purpose: every live holding, exclusive or shared, as one list. For the functions that show locks.
-- Index:   lock_pkey, lock_hold_pkey, lock_waiter_pkey.

create or replace view turno.lock_holders as
select
  t.resource, true as locked, t.mode,
  coalesce(h.owner, t.owner) as owner,
  coalesce(h.token, t.token) as token,
  coalesce(h.holds, t.holds) as holds,
  coalesce(h.acquired_at, t.acquired_at) as acquired_at,
  coalesce(h.expires_at, t.expires_at) as expires_at,
  coalesce(h.expires_at, t.expires_at) - clock_timestamp() as remaining,
  case when t.mode = 'shared' then h."user" else t."user" end as "user",
  case when t.mode = 'shared' then h.service else t.service end as service,
  case when t.mode = 'shared' then h.description else t.description end as description,
  case when t.mode = 'shared' then h.host else t.host end as host,
  case when t.mode = 'shared' then h.pid else t.pid end as pid,
  case
    when t.waited_until > clock_timestamp() then
      (select count(*) from turno.lock_waiter w
       where w.resource = t.resource and w.alive_until > clock_timestamp())
    else 0
  end as waiters
from turno.lock t
left join turno.lock_hold h
  on t.mode = 'shared'
  and h.resource = t.resource
where t.holds > 0
  -- Of a shared lock the holds decide: the gate is not told of a renewal that found it locked.
  and case when t.mode = 'shared' then h.expires_at else t.expires_at end > clock_timestamp();
