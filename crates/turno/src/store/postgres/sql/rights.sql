-- Purpose: the list of public functions, each with the role that may call it. It is the only such list: grants.sql grants
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
    ('inbox_complete_batch', 'turno_app'),
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
    ('inbox_push', 'turno_app'),
    ('inbox_push_batch', 'turno_app'),
    ('inbox_push_together', 'turno_app'),
    ('inbox_queues', 'turno_app'),
    ('inbox_requeue', 'turno_operator'),
    ('inbox_reset', 'turno_operator'),
    ('inbox_rouse', 'turno_app'),
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
