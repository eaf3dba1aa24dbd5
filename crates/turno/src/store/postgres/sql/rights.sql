-- Schema version, planner settings, roles and rights.

-- Purpose: the plans of the functions of locks, inbox, outbox and once are the same whatever the statistics say, or do not say yet: along the
--          indexes, row by row. What is called from inside inherits it from the public function around it.
-- Index:   all of them.
--
-- Each setting costs each call about as much as reading a row. So calls for one item have only what their simple statements need, and
-- the functions that they call in rare cases have the rest.

do $$
declare
  f record;
begin
  for f in
    select
      p.oid::regprocedure as name,
      starts_with(p.proname, 'lock_')
        or p.proname in (
          'inbox_push', 'inbox_complete', 'outbox_emit', 'once_begin', 'once_complete', 'inbox_sweep', 'inbox_sweep_failed',
          'outbox_sweep', 'once_sweep', 'history_sweep') as finds_by_key,
      p.proname in ('inbox_claim', 'inbox_complete_and_claim') as claims_one
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and (
        p.proname ~ '^(lock|inbox|outbox|once)_'
        and p.prosecdef
        -- Those in SQL only pass their arguments on.
        and p.prolang = (select l.oid from pg_language l where l.lanname = 'plpgsql')
        or p.proname in (
          'inbox_upkeep', 'inbox_claim_due', 'inbox_queue_learn', 'inbox_free', 'once_is_full', 'inbox_sweep', 'inbox_sweep_failed',
          'outbox_sweep', 'once_sweep', 'history_sweep'))
  loop
    -- A table without an index that would fit is still read as a whole, at a cost that is so high that it would be compiled.
    execute format('alter function %s set enable_seqscan = off set jit = off', f.name);
    continue when f.finds_by_key;
    execute format('alter function %s set plan_cache_mode = force_generic_plan set enable_bitmapscan = off', f.name);
    continue when f.claims_one;
    execute format('alter function %s set enable_hashjoin = off set enable_mergejoin = off', f.name);
  end loop;
end
$$;

-- Purpose: the number of the last migration and the oldest program that may use it, for callers that may not read the table.
-- Index:   migration_pkey.

create or replace function turno.schema_version() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select max(m.version)
  from turno.migration m
$$;

create or replace function turno.schema_oldest_program() returns integer
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(m.oldest_program, m.version)
  from turno.migration m
  order by m.version desc
  limit 1
$$;

comment on function turno.schema_oldest_program is
  'Programs that were built for this schema version or a later one may use the schema.';

comment on function turno.schema_version is 'The number of the last migration that was applied.';

-- Purpose: the two roles, whose names are settings (app_role, operator_role): create them, and take away all rights of a former one.
-- Index:   setting_pkey.

-- Creates a role where the owner may do so. Where it may not, an administrator runs `create role NAME nologin`: an error if the role
-- is required, a notice if not, and then `turno migrate --repair` grants.
create or replace function turno.role_create(wanted name, required boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from pg_roles r where r.rolname = wanted) then
    execute format('create role %I nologin', wanted);
  end if;
exception
  -- Roles belong to the whole cluster: a migration of another database may have just created it.
  when duplicate_object or unique_violation then null;
  when insufficient_privilege then
    if required then
      raise exception 'role % does not exist, and role % may not create roles', quote_ident(wanted), quote_ident(current_user)
        using errcode = 'insufficient_privilege',
          hint = format('An administrator runs `create role %I nologin`; then change the setting again.', wanted);
    end if;
    raise notice 'role % was not created: an administrator runs "create role % nologin", then the owner runs turno migrate --repair',
      quote_ident(wanted), quote_ident(wanted);
end
$$;

-- All that a role may do in this schema by grants of its own.
create or replace function turno.role_revoke(former name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from pg_roles r where r.rolname = former) then
    execute format('revoke all on all functions in schema turno from %I', former);
    execute format('revoke all on all tables in schema turno from %I', former);
    execute format('revoke all on all sequences in schema turno from %I', former);
    execute format('revoke all on schema turno from %I', former);
  end if;
end
$$;

-- After a setting has named another role. Functions of adopted tables that the former role may call go over to the new one.
create or replace function turno.role_replace(former name, wanted name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  f record;
begin
  perform turno.role_create(wanted, required => true);
  for f in
    select
      p.oid::regprocedure as name,
      pg_has_role(p.proowner, 'usage') as is_owner
    from turno.adopted a
    cross join lateral unnest(a.functions) u (name)
    join pg_proc p on p.oid = to_regprocedure(u.name)
    where exists (
      select from aclexplode(p.proacl) g
      join pg_roles r on r.oid = g.grantee
      where r.rolname = former)
    order by 1
  loop
    if f.is_owner then
      execute format('grant execute on function %s to %I', f.name, wanted);
      execute format('revoke execute on function %s from %I', f.name, former);
    else
      raise warning 'function % keeps its rights: its owner runs "grant execute on function % to %" and "revoke execute on function % from %"',
        f.name, f.name, quote_ident(wanted), f.name, quote_ident(former);
    end if;
  end loop;
  if former not in (turno.setting_value('app_role'), turno.setting_value('operator_role')) then
    perform turno.role_revoke(former);
  end if;
end
$$;

-- Purpose: least privilege. Each role may call the functions that turno.rights() lists for it and has no right to anything
--          else in the schema; the functions run as their owner. A role that does not exist is left out.
-- Index:   setting_pkey.

create or replace function turno.roles_grant() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  operators name   := turno.setting_value('operator_role');
  chosen    name[] := array[turno.setting_value('app_role'), turno.setting_value('operator_role')]::name[];
  grantee   name;
  f         regprocedure;
begin
  -- Where the settings name other roles, those of the default names have no rights, whatever a restore granted them.
  foreach grantee in array '{turno_app,turno_operator}'::name[]
  loop
    if grantee <> all (chosen) then
      perform turno.role_revoke(grantee);
    end if;
  end loop;
  for grantee in
    select r.rolname
    from pg_roles r
    where r.rolname = any (chosen)
    order by r.rolname
  loop
    execute format('grant usage on schema turno to %I', grantee);
    -- An older version granted more.
    execute format('revoke all on all functions in schema turno from %I', grantee);
    for f in
      select p.oid::regprocedure
      from pg_proc p
      join turno.rights() t on t.function = p.proname
      where p.pronamespace = 'turno'::regnamespace
        and (t.role = grantee or grantee = operators)
      order by p.oid
    loop
      execute format('grant execute on function %s to %I', f, grantee);
    end loop;
  end loop;
end
$$;

-- Purpose: the list of public functions, each with the role that may call it. It is the only such list: roles_grant() grants
--          by it, `turno doctor` compares with it, and the error for a missing right names the role that is in it.
--          turno_operator may call everything that turno_app may call. The settings app_role and operator_role rename the two.
-- Index:   setting_pkey.

create or replace function turno.rights(out function text, out role text) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    l.function,
    turno.setting_value(case l.role when 'turno_operator' then 'operator_role' else 'app_role' end)
  from (values
    ('access_any', 'turno_app'),
    ('access_find', 'turno_app'),
    ('adopted_calls', 'turno_app'),
    ('history', 'turno_app'),
    ('inbox_claim', 'turno_app'),
    ('inbox_claim_batch', 'turno_app'),
    ('inbox_complete', 'turno_app'),
    ('inbox_complete_and_claim', 'turno_app'),
    ('inbox_complete_batch', 'turno_app'),
    ('inbox_configure', 'turno_operator'),
    ('inbox_discard', 'turno_operator'),
    ('inbox_extend', 'turno_app'),
    ('inbox_extend_batch', 'turno_app'),
    ('inbox_fail', 'turno_app'),
    ('inbox_fail_batch', 'turno_app'),
    ('inbox_give_back', 'turno_app'),
    ('inbox_give_back_batch', 'turno_app'),
    ('inbox_idle', 'turno_app'),
    ('inbox_list', 'turno_app'),
    ('inbox_numbers', 'turno_app'),
    ('inbox_poll', 'turno_app'),
    ('inbox_push', 'turno_app'),
    ('inbox_push_batch', 'turno_app'),
    ('inbox_push_together', 'turno_app'),
    ('inbox_queues', 'turno_app'),
    ('inbox_requeue', 'turno_operator'),
    ('inbox_reset', 'turno_operator'),
    ('inbox_rouse', 'turno_app'),
    ('inbox_settings', 'turno_app'),
    ('inbox_stats', 'turno_app'),
    ('inbox_wait', 'turno_app'),
    ('lock_acquire', 'turno_app'),
    ('lock_acquire_all', 'turno_app'),
    ('lock_acquire_batch', 'turno_app'),
    ('lock_break', 'turno_operator'),
    ('lock_guard', 'turno_app'),
    ('lock_history', 'turno_app'),
    ('lock_leave', 'turno_app'),
    ('lock_list', 'turno_app'),
    ('lock_release', 'turno_app'),
    ('lock_release_batch', 'turno_app'),
    ('lock_renew', 'turno_app'),
    ('lock_renew_batch', 'turno_app'),
    ('lock_status', 'turno_app'),
    ('lock_wait', 'turno_app'),
    ('notifies', 'turno_app'),
    ('once_begin', 'turno_app'),
    ('once_begin_batch', 'turno_app'),
    ('once_complete', 'turno_app'),
    ('once_complete_batch', 'turno_app'),
    ('once_extend', 'turno_app'),
    ('once_forget', 'turno_operator'),
    ('once_list', 'turno_app'),
    ('once_release', 'turno_app'),
    ('once_resolve', 'turno_operator'),
    ('once_status', 'turno_app'),
    ('outbox_claim', 'turno_app'),
    ('outbox_discard', 'turno_operator'),
    ('outbox_emit', 'turno_app'),
    ('outbox_emit_batch', 'turno_app'),
    ('outbox_find', 'turno_app'),
    ('outbox_leader', 'turno_app'),
    ('outbox_list', 'turno_app'),
    ('outbox_recover', 'turno_app'),
    ('outbox_requeue', 'turno_operator'),
    ('outbox_settle', 'turno_app'),
    ('outbox_stats', 'turno_app'),
    ('outbox_table_record', 'turno_operator'),
    ('rights', 'turno_app'),
    ('schedule_state', 'turno_app'),
    ('schedule_tick', 'turno_app'),
    ('schema_oldest_program', 'turno_app'),
    ('schema_version', 'turno_app'),
    ('seen', 'turno_app'),
    ('settings', 'turno_app'),
    ('sweep', 'turno_operator'),
    ('sweep_last', 'turno_app')) l (function, role)
$$;

comment on function turno.rights is
  'The public functions, each with the role that may call it; the role of operators may call those of applications too.';

-- Only the owner touches tables and internal functions.
revoke all on schema turno from public;
revoke all on all tables in schema turno from public;
revoke all on all sequences in schema turno from public;
revoke all on all functions in schema turno from public;
