-- Functions that the others use: notifications, fencing tokens, checks of arguments, settings.

-- Purpose: wake-ups of processes that wait: one function sends them all, unless the database has the setting notify = off.
-- Index:   setting_pkey.

-- Whether Turno sends notifications. Default: on. Read only where a notification would be sent or a worker marks itself as idle.
create or replace function turno.notify_setting() returns boolean
language plpgsql
stable
as $$
begin
  return not exists (
    select
    from turno.setting s
    where s.name = 'notify'
      and s.value = 'off');
end
$$;

create or replace function turno.notifies() returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return turno.notify_setting();
end
$$;

comment on function turno.notifies is
  'Whether Turno notifies processes that wait. False if the database has the setting notify = off: then they look at intervals.';

-- What a notification carries in place of a name, because any role of the cluster that can connect can listen: the first 16
-- hexadecimal digits of SHA-256. Programs compute the same (wake.rs). Not md5, which a server in FIPS mode rejects.
create or replace function turno.wake_hash(name text) returns text
language sql
stable
as $$
  select left(encode(sha256(convert_to(wake_hash.name, 'UTF8')), 'hex'), 16)
$$;

-- Notifies the processes that wait for a name. The caller checks first that a process waits, because a notification makes
-- the commit take a lock of the whole cluster.
create or replace function turno.wake(channel text, name text) returns void
language plpgsql
as $$
begin
  if turno.notify_setting() then
    perform pg_notify(wake.channel, turno.wake_hash(wake.name));
  end if;
end
$$;

-- Programs that listen read the settings again after a change. Also with notify = off: only the owner changes a setting.
create or replace function turno.setting_changed() returns trigger
language plpgsql
as $$
begin
  perform pg_catalog.pg_notify('turno_setting', '');
  return null;
end
$$;

create or replace trigger setting_changed
after insert or update or delete on turno.setting
for each statement
execute function turno.setting_changed();

-- Purpose: the id of a call whose caller gave none. Such a call cannot be repeated, so the id need not be unique; a random one takes as
--          long as a small statement.
create or replace function turno.no_request() returns uuid
language sql
immutable
as $$
  select 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
$$;

-- Purpose: where fencing tokens come from.
-- Index:   lock_pkey.

-- A token follows the clock, in microseconds, and is one more than the last whenever the clock has
-- not moved on (or has moved back). So a database restored from a backup still grants tokens above
-- those it has forgotten, without a manual step.
create or replace function turno.next_token() returns bigint
language sql
volatile
as $$
  select (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$$;

-- Lifts a new row's token above that of every row ever purged.
create or replace function turno.lock_above_floor(resource text, token bigint) returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
  floor bigint;
begin
  select f.token into floor
  from turno.lock_floor f;
  if floor < lock_above_floor.token then
    return lock_above_floor.token;
  end if;
  update turno.lock t
  set token = floor + 1
  where t.resource = lock_above_floor.resource;
  return floor + 1;
end
$$;

-- Purpose: refuse what no lock may have, naming the field and the remedy. Nothing is stored then.
-- Index:   none.

-- Whether an array has an entry. One expression: a statement that finds nothing to check costs more.
create or replace function turno.has_any("values" anyarray) returns boolean
language sql
immutable
as $$
  select coalesce(cardinality(array_remove("values", null)), 0) > 0
$$;

-- Whether a name is good. One expression, which costs no call; check_name says what is wrong.
create or replace function turno.is_name(value text, longest integer) returns boolean
language sql
immutable
as $$
  select value is not null
    and value <> ''
    and octet_length(value) <= longest
    and value !~ '[\u0001-\u001f\u007f-\u009f]'
$$;

create or replace function turno.check_name(field text, value text, longest integer) returns void
language plpgsql
immutable
as $$
begin
  if value is null or value = '' then
    raise exception '% is empty', field
      using errcode = 'invalid_parameter_value', hint = format('Give %s 1 to %s bytes of text.', field, longest);
  end if;
  if octet_length(value) > longest then
    raise exception '% has % bytes, and % is the most', field, octet_length(value), longest
      using errcode = 'invalid_parameter_value', hint = 'Shorten it, or use a hash of it.';
  end if;
  if value ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '% has a control character', field
      using errcode = 'invalid_parameter_value', hint = 'Remove line breaks, tabs and other control characters.';
  end if;
end
$$;

-- The owner's limit, whatever max_ttl a caller gives. Callers ask only for more than the functions' own default, 24 hours.
create or replace function turno.check_max_ttl(ttl interval) returns void
language plpgsql
stable
as $$
begin
  if ttl > turno.setting_value('max_ttl')::interval then
    raise exception 'ttl is %, and % is the most in this database', ttl, turno.setting_value('max_ttl')
      using errcode = 'invalid_parameter_value',
        hint = 'Take a shorter lease and renew it. Or the owner of schema turno raises the setting max_ttl: '
               '`turno migrate --setting max_ttl=90d`, or select turno.setting_set(''max_ttl'', ''90 days'').';
  end if;
end
$$;

-- The largest payload that is accepted: the caller's limit, or the owner's if that is lower. Callers ask only when a payload is larger
-- than the functions' own default, 1 MiB.
create or replace function turno.check_max_payload(max_payload integer, largest integer) returns void
language plpgsql
stable
as $$
begin
  if largest > max_payload then
    raise exception 'payload has % bytes, and % is the most', largest, max_payload
      using errcode = 'invalid_parameter_value', hint = 'Store it elsewhere and keep a reference, or raise max_payload.';
  end if;
  if largest > turno.setting_value('max_payload')::integer then
    raise exception 'payload has % bytes, and % is the most in this database', largest, turno.setting_value('max_payload')
      using errcode = 'invalid_parameter_value',
        hint = 'Store it elsewhere and keep a reference. Or the owner of schema turno raises the setting max_payload: '
               '`turno migrate --setting max_payload=128MB`, or select turno.setting_set(''max_payload'', ''128MB'').';
  end if;
end
$$;

create or replace function turno.lock_check(ask turno.lock_ask) returns void
language plpgsql
as $$
begin
  perform turno.check_name('resource', ask.resource, 255);
  perform turno.check_name('owner', ask.owner, 255);
  if ask."user" is not null then perform turno.check_name('user', ask."user", 255); end if;
  if ask.service is not null then perform turno.check_name('service', ask.service, 255); end if;
  if ask.description is not null then perform turno.check_name('description', ask.description, 1000); end if;
  if ask.host is not null then perform turno.check_name('host', ask.host, 255); end if;
  if ask.ttl is null or ask.ttl < '1 millisecond' then
    raise exception 'ttl is %, and must be at least 1 ms', coalesce(ask.ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two renewals, such as 30 seconds.';
  end if;
  if ask.max_ttl is null or ask.ttl > ask.max_ttl then
    raise exception 'ttl is %, and % is the most', ask.ttl, coalesce(ask.max_ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter lease and renew it, or raise max_ttl.';
  end if;
  if ask.ttl > '24 hours' then
    perform turno.check_max_ttl(ask.ttl);
  end if;
  if ask.min_hold < '0' or ask.min_hold > ask.ttl then
    raise exception 'min_hold is %, and must be between 0 and the ttl (%)', ask.min_hold, ask.ttl
      using errcode = 'invalid_parameter_value', hint = 'Raise the ttl or lower min_hold.';
  end if;
  if ask.max_hold < '1 millisecond' or ask.max_hold < ask.min_hold then
    raise exception 'max_hold is %, and must be above 0 and not below min_hold', ask.max_hold
      using errcode = 'invalid_parameter_value', hint = 'Raise max_hold, or leave it out.';
  end if;
  if ask.mode is null or ask.mode not in ('exclusive', 'shared') then
    raise exception 'mode is %, and must be exclusive or shared', coalesce(quote_literal(ask.mode), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave mode out for an exclusive lock.';
  end if;
  if ask.permits not between 1 and 10000 then
    raise exception 'permits is %, and must be between 1 and 10000', ask.permits
      using errcode = 'invalid_parameter_value', hint = 'Leave permits out for an exclusive lock, or use mode shared for any number.';
  end if;
end
$$;

-- Purpose: settings of the whole database: which there are, their values, and how the owner of the schema changes them.
-- Index:   setting_pkey.

-- The one list of names. Functions read max_ttl and max_payload only for what is above their own defaults (24 hours, 1 MiB), so that
-- the usual call reads no setting; therefore neither can be lower than that.
create or replace function turno.setting_list(out name text, out default_value text, out meaning text) returns setof record
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  values
    ('app_role', 'turno_app', 'the role of applications'),
    ('max_payload', '67108864', 'the largest payload that any caller can store, in bytes'),
    ('max_ttl', '30 days', 'the longest lease of a lock that any caller can take'),
    ('notify', 'on', 'whether waiters are notified: on or off'),
    ('operator_role', 'turno_operator', 'the role of operators')
$$;

-- What a setting is now. Not for callers: they use turno.settings().
create or replace function turno.setting_value(name text) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (select s.value from turno.setting s where s.name = setting_value.name),
    (select l.default_value from turno.setting_list() l where l.name = setting_value.name))
$$;

create or replace function turno.settings(
  out name          text,
  out value         text,
  out default_value text,
  out meaning       text
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select l.name, coalesce(s.value, l.default_value), l.default_value, l.meaning
  from turno.setting_list() l
  left join turno.setting s on s.name = l.name
  order by l.name
$$;

comment on function turno.settings is
  'The settings of this database, each with its value, its default and its meaning. The owner changes them with turno.setting_set.';

-- A value as it is stored; null for the default. Raises an error for an unknown name and a bad value.
create or replace function turno.setting_checked(name text, value text) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  fallback text := (select l.default_value from turno.setting_list() l where l.name = setting_checked.name);
  wanted   text := coalesce(nullif(nullif(trim(setting_checked.value), 'default'), ''), fallback);
  must     text;
begin
  if fallback is null then
    raise exception 'setting % is unknown', coalesce(quote_literal(setting_checked.name), 'null')
      using errcode = 'invalid_parameter_value',
        hint = format('The settings are %s.', (select string_agg(l.name, ', ' order by l.name) from turno.setting_list() l));
  end if;
  case setting_checked.name
    when 'notify' then
      if wanted not in ('on', 'off') then
        must := 'on or off';
      end if;
    when 'max_ttl' then
      begin
        -- A bare number would be seconds.
        if wanted ~ '^[-+0-9.]*$' or wanted::interval not between '24 hours' and '3660 days' then
          must := 'a duration between 24 hours and 3660 days, with its unit';
        end if;
      exception when data_exception then
        must := 'a duration between 24 hours and 3660 days, with its unit';
      end;
    when 'max_payload' then
      begin
        if pg_size_bytes(wanted) not between 1048576 and 1073741823 then
          must := 'a number of bytes between 1048576 and 1073741823';
        else
          wanted := pg_size_bytes(wanted)::text;
        end if;
      exception when data_exception then
        must := 'a number of bytes between 1048576 and 1073741823';
      end;
    else
      perform turno.check_name('setting ' || setting_checked.name, wanted, 63);
      if lower(wanted) in ('public', 'none') or starts_with(wanted, 'pg_') then
        must := 'a role whose name is not reserved';
      elsif wanted = (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'turno') then
        must := 'another role than the owner of schema turno, who needs no right';
      elsif wanted = turno.setting_value(case setting_checked.name when 'app_role' then 'operator_role' else 'app_role' end) then
        must := 'another role than the one that app_role or operator_role names already';
      end if;
  end case;
  if must is not null then
    raise exception 'setting % is %, and must be %', setting_checked.name, quote_literal(wanted), must
      using errcode = 'invalid_parameter_value', hint = 'Correct the value, or give the value default to remove it.';
  end if;
  return nullif(wanted, fallback);
end
$$;

create or replace function turno.setting_set(name text, value text, "user" text default null) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  wanted text;
  was    text;
  now    text;
begin
  perform turno.operator_action_check(setting_set."user", null);
  -- That of migrations: two transactions cannot change the rights of one function at once.
  perform pg_advisory_xact_lock(500186639983);
  was := turno.setting_value(setting_set.name);
  wanted := turno.setting_checked(setting_set.name, setting_set.value);
  if wanted is null then
    delete from turno.setting s
    where s.name = setting_set.name;
  else
    insert into turno.setting as s (name, value)
    values (setting_set.name, wanted)
    on conflict on constraint setting_pkey do update
    set value = excluded.value;
  end if;
  now := turno.setting_value(setting_set.name);
  if now = was then
    return now;
  end if;
  perform turno.operator_action_record(
    'setting', 'changed', setting_set.name, 1, coalesce(setting_set."user", session_user::text),
    format('from %s to %s', was, now));
  if setting_set.name in ('app_role', 'operator_role') then
    perform turno.role_replace(was::name, now::name);
    perform turno.roles_grant();
  end if;
  return now;
end
$$;

comment on function turno.setting_set is
  'Changes a setting of this database for every caller, and answers its value; the value default removes it. For the owner of the schema.';
