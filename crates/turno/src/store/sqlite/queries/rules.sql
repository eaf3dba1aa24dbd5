-- name: lock_is_held
-- Whether a hold, exclusive or shared, excludes other owners. A lock is taken over when this is no longer true.
-- Parameters: :now. For a row of turno_lock or turno_lock_hold.
holds > 0
  and expires_at > :now

-- name: lock_is_resting
-- Whether the min_hold of an earlier hold has not passed. Parameters: :now. For a row of turno_lock.
coalesce(min_until > :now, false)

-- name: lock_is_next
-- Whether no waiter that asked for first in, first out is ahead of this owner. Parameters: :resource :owner :now.
-- For a row of turno_lock. Index: the unique index of turno_lock_waiter.
fifo_until is null
  or fifo_until <= :now
  or coalesce(
    (select w.owner = :owner
     from turno_lock_waiter w
     where w.resource = :resource
       and w.fifo
       and w.alive_until > :now
     order by w.ticket
     limit 1),
    true)

-- name: lock_is_takeable
-- Whether an owner may take a lock for itself alone. Parameters: :resource :owner :now. For a row of turno_lock.
not {lock_is_held}
  and not {lock_is_resting}
  and {lock_is_next}

-- name: lock_is_shareable
-- Whether an owner that has no hold may share a lock: it has no exclusive hold and fewer than :permits shared ones, its
-- min_hold has passed, and no waiter is ahead. Parameters: :resource :owner :now :permits. For a row of turno_lock.
-- Index: the primary key of turno_lock_hold.
(mode <> 'exclusive' or not {lock_is_held})
  and (
    select count(*) < :permits
    from turno_lock_hold
    where resource = :resource
      and {lock_is_held})
  and (mode <> 'exclusive' and {lock_is_held} or not {lock_is_resting})
  and {lock_is_next}

-- name: inbox_is_ready
-- Whether an item has no due time: it may be claimed when it is first in its group. For a row of turno_inbox_item.
run_at is null

-- name: inbox_is_due
-- Whether the due time of an item has come. Parameters: ?2 now. For a row of turno_inbox_item.
run_at <= ?2

-- name: inbox_claim_has_expired
-- Whether a claim has ended because its lease expired, so that another claim may take its items over. Parameters: ?2 now.
-- For a row of turno_inbox_claim.
held > 0
  and until <= ?2
