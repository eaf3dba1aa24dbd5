-- Purpose: fencing, enforced: inside the caller's transaction, as its last statement. It fails if the
--          token is stale, and otherwise keeps everybody from taking the lock over until that
--          transaction has ended, even past the expiry.
-- Index:   lock_pkey, lock_hold_pkey.
-- The row lock is shared, so that several guarded transactions of one holder do not wait for each other.

create or replace function turno.lock_guard(resource text, token bigint) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  perform 1
  from turno.lock t
  where t.resource = lock_guard.resource
    and t.token = lock_guard.token
    and t.mode = 'exclusive'
    and t.holds > 0
    and t.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  -- A shared hold: its own row is kept, and nobody may end it then. The gate stays free for the others.
  perform 1
  from turno.lock_hold h
  where h.resource = lock_guard.resource
    and h.token = lock_guard.token
    and h.holds > 0
    and h.expires_at > clock_timestamp()
  for share;
  if found then
    return;
  end if;
  raise exception 'the lease on % with token % is lost', lock_guard.resource, lock_guard.token
    using errcode = 'TN410', hint = 'Roll back: another holder may have the lock. Acquire it again and repeat the work.';
end
$$;

comment on function turno.lock_guard is
  'In the caller''s transaction, as its last statement: raises TN410 if the token is stale; otherwise nobody can take the lock over until that transaction ends.';
