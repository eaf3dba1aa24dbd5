-- Purpose: tidiness, never correctness: closes holdings whose time is up, forgets resources long
--          unused (raising the token floor first), dead waiters and old history. Bounded by "batch" a
--          kind; call it again until it answers zeros.
-- Index:   lock_pkey (scanned whole: there is no index on the expiry, on purpose), lock_history_pkey.

create or replace function turno.sweep(
  purge_after  interval default '1 day',
  keep_history interval default '90 days',
  batch        integer  default 1000
) returns turno.swept
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  l    turno.lock;
  done turno.swept;
  high bigint;
begin
  if purge_after is null or purge_after < '0' or keep_history is null or keep_history < '0' or not coalesce(batch between 1 and 100000, false) then
    raise exception 'purge_after (%), keep_history (%) and batch (%) must not be negative, and batch is 1 to 100000', purge_after, keep_history, batch
      using errcode = 'invalid_parameter_value', hint = 'Leave them out for the defaults.';
  end if;
  done := row(0, 0, 0, 0)::turno.swept;

  for l in
    select *
    from turno.lock t
    where t.holds > 0
      and t.expires_at <= clock_timestamp()
    limit batch
    for update skip locked
  loop
    done.expired := done.expired + turno.lock_close(l, 'expired');
    if l.mode = 'shared' then
      -- Not simply free: a hold that a guard keeps is still there.
      perform turno.lock_gate(l.resource);
    else
      update turno.lock t
      set holds = 0
      where t.resource = l.resource;
    end if;
    perform turno.lock_call(l);
  end loop;

  -- Rows that nobody has wanted for long. Their highest token becomes the floor in the same
  -- transaction, so that no resource can come back below it.
  with gone as (
    delete from turno.lock t
    where t.resource in (
      select k.resource
      from turno.lock k
      where k.holds = 0
        and k.acquired_at < clock_timestamp() - purge_after
        and (k.min_until is null or k.min_until < clock_timestamp())
        and (k.waited_until is null or k.waited_until < clock_timestamp())
      limit batch
      for update skip locked)
    returning t.token)
  select count(*), max(gone.token) into done.purged, high
  from gone;
  if high is not null then
    update turno.lock_floor f
    set token = high
    where f.token < high;
  end if;

  with gone as (
    delete from turno.lock_waiter w
    where w.alive_until < clock_timestamp()
    returning 1)
  select count(*) into done.waiters
  from gone;

  with gone as (
    delete from turno.lock_history h
    where h.id in (
      select o.id
      from turno.lock_history o
      order by o.id
      limit batch)
      and h.at < clock_timestamp() - keep_history
    returning 1)
  select count(*) into done.history
  from gone;

  return done;
end
$$;

comment on function turno.sweep is
  'Closes expired holdings, forgets long unused resources, dead waiters and old history; at most batch of each.';
