-- name: access_any
-- Calls turno.access_any.
select turno.access_any() as found

-- name: access_create
-- Calls turno.access_create. $1 id, $2 hash, $3 name, $4 role, $5 prefix, $6 expires_in.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_create($1, $2, $3, $4, $5, $6)

-- name: access_find
-- Calls turno.access_find. $1 id.
select (view).id, (view).name, (view).role, (view).prefix, (view).state, (view).created_at, (view).expires_at, (view).revoked_at, hash
from turno.access_find($1)

-- name: access_list
-- Calls turno.access_list. $1 limit.
select id, name, role, prefix, state, created_at, expires_at, revoked_at
from turno.access_list($1)

-- name: access_revoke
-- Calls turno.access_revoke. $1 id.
select turno.access_revoke($1) as ended

-- name: diagnose
-- Purpose: the state of the server, for `turno doctor`. $1: a transaction that is open for longer than this blocks vacuum.
-- Index:   none; views of the server's state.
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
  -- An ordinary role sees null for the columns of other roles' sessions.
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

-- name: diagnose_encryption
-- Whether the connection that asks is encrypted, and whether it stays on one machine. No index: views of the server's state.
select
  s.ssl as encrypted,
  s.version,
  s.cipher,
  inet_server_addr() is null
    or inet_server_addr() <<= inet '127.0.0.0/8'
    or inet_server_addr() = inet '::1'
    or host(inet_server_addr()) = host(inet_client_addr()) as local
from pg_stat_ssl s
where s.pid = pg_backend_pid()

-- name: diagnose_exposed
-- The functions of schema turno that role anon may call; no row where there is no such role, or no schema.
select
  coalesce((
    select array_agg(p.oid::regprocedure::text order by p.oid::regprocedure::text)
    from pg_proc p
    where p.pronamespace = n.oid
      and has_schema_privilege(r.oid, n.oid, 'usage')
      and has_function_privilege(r.oid, p.oid, 'execute')), '{}') as functions,
  coalesce(has_table_privilege(to_regclass('turno.adopted'), 'select'), false) as is_owner
from pg_roles r
cross join pg_namespace n
where r.rolname = 'anon'
  and n.nspname = 'turno'

-- name: diagnose_exposed_adopted
-- The functions of adopted tables that role anon may call.
select f.oid::regprocedure::text as function
from turno.adopted a
join pg_namespace n on n.nspname = a.schema_name
cross join lateral unnest(a.functions) u (name)
cross join lateral to_regprocedure(u.name) f (oid)
where f.oid is not null
  and has_schema_privilege('anon', n.oid, 'usage')
  and has_function_privilege('anon', f.oid, 'execute')
order by 1

-- name: diagnose_numbers
-- Purpose: the numbers of items, for `turno doctor`.
-- Index:   those of turno.inbox_numbers.
select last_id, highest_id, unreachable
from turno.inbox_numbers()

-- name: diagnose_relay
-- Purpose: who relays events, how long ago the last one left, and how long the oldest one has waited.
-- Index:   outbox_sent_pkey, inbox_item_due.
select
  turno.outbox_leader() as leader,
  clock_timestamp() - sent.at as last_age,
  waits.oldest as oldest_age
from (select 1) one
left join lateral (
  select d.at
  from turno.outbox_list('dispatched', null, 1) d
  limit 1) sent on true
left join lateral (
  select s.oldest_pending as oldest
  from turno.outbox_stats() s) waits on true

-- name: diagnose_tables
-- Purpose: size and dead rows of each table, indexes and out-of-line values included. Readable by every role.
-- Index:   none.
select
  c.relname::text as name,
  pg_total_relation_size(c.oid) as bytes,
  coalesce(s.n_live_tup, 0) as live,
  coalesce(s.n_dead_tup, 0) as dead
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_stat_all_tables s on s.relid = c.oid
where n.nspname = 'turno'
  and c.relkind = 'r'

-- name: drift_functions
-- Purpose: what the functions of the schema are now. Readable by every role.
-- Index:   pg_proc_proname_args_nsp_index is no help; the schema has some two hundred functions.
select
  p.proname::text as name,
  sha256(convert_to(p.prosrc, 'UTF8')) as body,
  p.prosecdef as definer,
  coalesce(p.proconfig, '{}') as settings
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'turno'

-- name: drift_grants
-- Purpose: which role has too few or too many rights, by turno.rights(). A role that does not exist has its name alone;
--          public should have none, and where the settings name other roles than turno_app and turno_operator, those should have
--          none either. Of the latter two only direct grants count: an administrator may have made one a member of the others.
-- Index:   setting_pkey.
with chosen as (
  select
    max(s.value) filter (where s.name = 'app_role') as app,
    max(s.value) filter (where s.name = 'operator_role') as operators
  from turno.settings() s)
select
  w.role,
  w.id is not null as exists,
  not w.is_chosen or coalesce(has_schema_privilege(w.id, 'turno', 'usage'), false) as usage,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.should and not may.can), '{}') as missing,
  coalesce(array_agg(p.proname::text order by p.proname) filter (where may.can and not may.should), '{}') as excess
from (
  -- Zero is how PostgreSQL numbers public.
  select 'public' as role, 0::oid as id, false as is_chosen, false as is_operator
  union all
  select c.app, r.oid, true, false
  from chosen c
  left join pg_roles r on r.rolname = c.app
  union all
  select c.operators, r.oid, true, true
  from chosen c
  left join pg_roles r on r.rolname = c.operators
  union all
  select r.rolname::text, r.oid, false, false
  from chosen c
  join pg_roles r on r.rolname in ('turno_app', 'turno_operator')
  where r.rolname not in (c.app, c.operators)) w
join pg_proc p on p.pronamespace = 'turno'::regnamespace
left join turno.rights() t on t.function = p.proname
cross join lateral (
  select
    w.is_chosen and (t.role = w.role or w.is_operator and t.role is not null) as should,
    case
      when w.is_chosen or w.id = 0 then coalesce(has_function_privilege(w.id, p.oid, 'execute'), false)
      else exists (
        select from aclexplode(p.proacl) g
        where g.grantee = w.id)
    end as can) may
group by w.role, w.id, w.is_chosen
order by w.role

-- name: grant_roles
-- Purpose: the roles exist, where the owner may create roles, and have their rights.
-- Index:   none.

do $$
begin
  perform turno.role_create(turno.setting_value('app_role')::name);
  perform turno.role_create(turno.setting_value('operator_role')::name);
  perform turno.roles_grant();
end
$$;

-- name: grant_service_role
-- Purpose: Supabase's server-side role gets what the role of applications has, where the owner has granted it the schema
--          (`turno migrate --print --for supabase` does so).
-- Index:   none.
--
-- Each function by itself, and not the membership in that role: service_role does not inherit the rights of roles that
-- it is a member of (noinherit). Roles anon and authenticated get nothing.

do $$
declare
  app name := turno.setting_value('app_role');
  f   regprocedure;
begin
  if to_regrole('service_role') is null
     or not exists (select from pg_roles r where r.rolname = app)
     or not has_schema_privilege('service_role', 'turno', 'usage') then
    return;
  end if;
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and has_function_privilege(app, p.oid, 'execute')
  loop
    execute format('grant execute on function %s to service_role', f);
  end loop;
end
$$;

-- name: history_list
-- Calls turno.history. $1 resource, $2 before, $3 limit, $4 prefix, $5 part.
select
  id, at, part, event, resource, count, token, mode, owner, "user", service, description, host, pid, acquired_at, expires_at,
  actor, reason
from turno.history($1, $2, $3, $4, $5)

-- name: migration_table
-- Purpose: the list of migrations that were applied. Runs before any of them.
-- Index:   migration_pkey.

create schema if not exists turno;

create table if not exists turno.migration (
  version    integer     primary key,
  name       text        not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- name: role_needed
-- Purpose: the role that may call a function, read from the catalog, which every role may read: a caller without rights cannot ask
--          turno.rights(). $1 is the function; null for any. The role with the fewest rights is the first: that of applications.
-- Index:   pg_proc_proname_args_nsp_index is no help; the schema has some two hundred functions.
select quote_ident(r.rolname) as role
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
cross join lateral aclexplode(p.proacl) g
join pg_roles r on r.oid = g.grantee
where n.nspname = 'turno'
  and g.grantee <> p.proowner
  -- It has the rights of applications, and no other role becomes its member.
  and r.rolname <> 'service_role'
group by r.oid, r.rolname
-- A role that was granted single functions is neither of the two.
having bool_or(p.proname = 'schema_version')
  and ($1 is null or bool_or(p.proname = $1))
order by count(*), r.rolname
limit 1

-- name: roles_missing
-- Purpose: the roles that the settings name and that do not exist in this cluster.
-- Index:   setting_pkey.
select s.value as role
from turno.settings() s
where s.name in ('app_role', 'operator_role')
  and not exists (
    select from pg_roles r
    where r.rolname = s.value)
order by s.name

-- name: schema_other_owner
-- The owner of schema turno, if it is not the current role.
select
  pg_get_userbyid(n.nspowner)::text as owner,
  current_user::text as role
from pg_namespace n
where n.nspname = 'turno'
  and pg_get_userbyid(n.nspowner) <> current_user

-- name: session_check
-- What a new session is connected to. The process id tells a server from a pooler; a standby is read-only. No index.
select
    pg_backend_pid() as process,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only

-- name: session_open
-- What a new session is connected to, and its limits. $1 the process that greeted, $2 lock_timeout, $3 statement_timeout; null
-- leaves a limit as it is, and one that the role or the database has set lower stays. Behind a pooler another process answers,
-- and nothing is set: its server connections are shared. No index.
select
    pg_backend_pid() as process,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only,
    case
        when pg_backend_pid() = $1
            and $2::text is not null
            and (current_setting('lock_timeout')::interval = '0' or current_setting('lock_timeout')::interval > $2::text::interval)
            then set_config('lock_timeout', $2, false)
    end as lock_timeout,
    case
        when pg_backend_pid() = $1
            and $3::text is not null
            and (current_setting('statement_timeout')::interval = '0' or current_setting('statement_timeout')::interval > $3::text::interval)
            then set_config('statement_timeout', $3, false)
    end as statement_timeout

-- name: setting_list
-- Calls turno.settings.
select name, value, default_value, meaning
from turno.settings()

-- name: setting_set
-- Calls turno.setting_set. $1 name, $2 value (null for the default), $3 user.
select
  was.value as before,
  turno.setting_set($1, $2, $3) as value
from (select 1) one
left join turno.settings() was on was.name = $1

-- name: supabase_rights
-- Purpose: the end of the migration file for Supabase. Role service_role may call what the role of applications may; role anon may call
--          nothing, whatever default privileges say; role authenticated keeps what its owner granted it, which is nothing
--          at first. PostgREST reads the functions anew.
-- Index:   none.

do $$
declare
  app name := turno.setting_value('app_role');
begin
  if not exists (select from pg_roles r where r.rolname = app) then
    raise exception 'role % does not exist, and role % may not create it', quote_ident(app), current_user
      using errcode = 'insufficient_privilege', hint = format('Run "create role %I nologin" as an administrator, then apply this file again.', app);
  end if;
  if to_regrole('service_role') is null then
    raise exception 'role service_role does not exist: this is no database of Supabase'
      using errcode = 'undefined_object', hint = 'Run `turno migrate` instead.';
  end if;
  grant usage on schema turno to service_role;
  if to_regrole('anon') is not null then
    revoke all on schema turno from anon;
    revoke all on all tables in schema turno from anon;
    revoke all on all sequences in schema turno from anon;
    revoke all on all functions in schema turno from anon;
  end if;
end
$$;

-- name: sweep
-- Calls turno.sweep. $1 purge_after, $2 keep_history, $3 batch, $4 keep_completed, $5 keep_archive, $6 keep_seen,
-- $7 keep_failed.
select expired, purged, waiters, history, completed, archived, seen, once, failed
from turno.sweep($1, $2, $3, $4, $5, $6, $7)

-- name: sweep_last
-- Purpose: how long ago the store was last swept, and by which role.
-- Index:   none: one row.
select
  clock_timestamp() - s.at as age,
  s."by"
from turno.sweep_last() s
