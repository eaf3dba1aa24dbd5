-- Purpose: take several resources, all or none, in sorted order, so that two callers who want the same
--          ones cannot wait for each other. Busy on one undoes the others and names that one.
-- Index:   lock_pkey.

create or replace function turno.lock_acquire_all(
  resources   text[],
  owner       text     default null,
  ttl         interval default '30 seconds',
  "user"      text     default null,
  service     text     default null,
  description text     default null,
  min_hold    interval default null,
  max_hold    interval default null,
  host        text     default null,
  pid         integer  default null,
  request     uuid     default null,
  max_ttl     interval default '24 hours'
) returns setof turno.lock_outcome
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  sorted text[];
  name   text;
  l      turno.lock;
  got    turno.lock_outcome;
  all_of turno.lock_outcome[] := '{}';
begin
  sorted := array(select distinct r collate "C" from unnest(resources) r order by 1);
  if cardinality(sorted) not between 1 and 100 then
    raise exception 'resources has % names, and must have 1 to 100', cardinality(sorted)
      using errcode = 'invalid_parameter_value', hint = 'Lock a common parent, such as PRESTAMO instead of each PRESTAMO/n.';
  end if;
  owner := coalesce(owner, gen_random_uuid()::text);

  -- Losing writes nothing: look at all of them before touching one.
  foreach name in array sorted loop
    select * into l
    from turno.lock t
    where t.resource = name;
    continue when l.holds > 0 and l.expires_at > clock_timestamp() and l.owner = owner and l.mode = 'exclusive';
    if (l.mode = 'exclusive' and l.holds > 0 and l.expires_at > clock_timestamp())
       or (l.mode = 'shared' and turno.lock_is_shared(name))
       or l.min_until > clock_timestamp()
       or not turno.lock_is_next(l, owner) then
      return next turno.lock_answer('busy', l);
      return;
    end if;
  end loop;

  begin
    foreach name in array sorted loop
      got := turno.lock_acquire(
        resource => name, owner => owner, ttl => ttl, "user" => "user", service => service,
        description => description, min_hold => min_hold, max_hold => max_hold, host => host,
        pid => pid, request => request, max_ttl => max_ttl);
      if got.outcome = 'busy' then
        raise exception 'busy' using errcode = 'TN409';
      end if;
      all_of := all_of || got;
    end loop;
  exception when sqlstate 'TN409' then
    return next got;
    return;
  end;
  return query select * from unnest(all_of);
end
$$;

comment on function turno.lock_acquire_all is
  'Takes several resources, all or none, in sorted order: one row for each, or a single row with outcome busy.';
