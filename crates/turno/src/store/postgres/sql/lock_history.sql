-- Purpose: the audit trail, newest first: one entry a holding that has ended, one a late arrival.
-- Index:   lock_history_resource, or lock_history_pkey when no resource is named.

create or replace function turno.lock_history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default ''
) returns setof turno.lock_history
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if lock_history.resource is not null then
    return query
      select h.*
      from turno.lock_history h
      where h.resource = lock_history.resource
        and h.id < coalesce(lock_history.before, 9223372036854775807)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  else
    return query
      select h.*
      from turno.lock_history h
      where h.id < coalesce(lock_history.before, 9223372036854775807)
        and starts_with(h.resource, lock_history.prefix)
      order by h.id desc
      limit least(greatest(lock_history."limit", 1), 1000);
  end if;
end
$$;

comment on function turno.lock_history is
  'The audit trail, newest first, of one resource or of all that begin with a prefix; before is the last id of the page before.';
