-- What `turno doctor` looks at. $1: a transaction that has been open for longer than this blocks vacuum.
select
  current_setting('server_version') as server_version,
  current_setting('server_version_num')::integer as server_version_num,
  current_user::text as role,
  quote_ident(current_user) as role_quoted,
  current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_standby_names') as standbys,
  pg_is_in_recovery() as standby,
  current_setting('default_transaction_read_only') as read_only,
  clock_timestamp() as now,
  blocker.pid as blocker_pid,
  blocker.who as blocker_who,
  blocker.age as blocker_age,
  -- What an ordinary role may not see of others' sessions is null.
  (
    select count(*)
    from pg_stat_activity a
    where a.usename is not null
      and a.backend_type is null) as hidden_sessions
from (select 1) one
left join lateral (
  select
    a.pid,
    concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) as who,
    clock_timestamp() - a.xact_start as age
  from pg_stat_activity a
  where a.xact_start < clock_timestamp() - $1::interval
    and a.pid <> pg_backend_pid()
    and a.backend_type = 'client backend'
  order by a.xact_start
  limit 1) blocker on true
