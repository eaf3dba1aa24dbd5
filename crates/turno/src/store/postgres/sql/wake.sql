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
