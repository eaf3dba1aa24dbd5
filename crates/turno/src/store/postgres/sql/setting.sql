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
  perform turno.deed_check(setting_set."user", null);
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
  perform turno.deed_record(
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
