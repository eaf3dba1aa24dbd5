-- Purpose: who holds what. lock_status answers for one resource: one row a holder, or one row with
--          locked = false. lock_list answers for all that are held and begin with a prefix.
-- Index:   lock_pkey (a range of it, for the prefix), lock_hold_pkey, lock_waiter_pkey.

create or replace function turno.lock_status(resource text) returns setof turno.lock_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select * from turno.lock_holders h where h.resource = lock_status.resource;
  if not found then
    return next row(
      lock_status.resource, false, null, null, null, 0, null, null, null, null, null, null, null, null,
      (select count(*) from turno.lock_waiter w
       where w.resource = lock_status.resource and w.alive_until > clock_timestamp()))::turno.lock_info;
  end if;
end
$$;

comment on function turno.lock_status is
  'Who holds a resource: a row for each holder, or one row with locked = false.';

create or replace function turno.lock_list(
  prefix text    default '',
  after  text    default '',
  "limit" integer default 100
) returns setof turno.lock_info
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  -- A page is so many resources, each with all of its holders.
  select h.*
  from (
    select distinct o.resource
    from turno.lock_holders o
    where o.resource > after
      and o.resource >= prefix
      and starts_with(o.resource, prefix)
    order by o.resource
    limit least(greatest("limit", 1), 1000)) page
  join turno.lock_holders h on h.resource = page.resource
  order by h.resource, h.token
$$;

comment on function turno.lock_list is
  'The locks that are held now and begin with a prefix, in order; after is the last resource of the page before.';
