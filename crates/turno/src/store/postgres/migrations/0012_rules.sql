-- When a lock may be taken and when an item may be claimed is decided by one function each (sql/lock_acquire.sql,
-- sql/inbox_attempt.sql); the functions that had copies of the rules are dropped. Tables and columns have the names that they
-- have on SQLite.
drop function if exists turno.lock_is_free(turno.lock);
drop function if exists turno.lock_may_share(turno.lock, text, integer);

-- Four times the queue's id, plus the priority.
alter table turno.inbox_item rename column lane to queue_priority;
alter table turno.inbox_failed rename column lane to queue_priority;
alter table turno.inbox_batch rename column lane to queue_priority;
-- Priorities, a bit for each.
alter table turno.inbox_kind rename column lanes to priority_mask;
alter table turno.inbox_batch rename to inbox_claim;
alter index turno.inbox_batch_pkey rename to inbox_claim_pkey;
alter index turno.inbox_batch_queue rename to inbox_claim_queue;

alter table turno.deed rename to operator_action;
alter index turno.deed_pkey rename to operator_action_pkey;
alter index turno.deed_resource rename to operator_action_resource;

-- Internal functions that have other names, or parameters with other names.
drop function if exists turno.lock_call(turno.lock);
drop function if exists turno.inbox_call(integer);
drop function if exists turno.once_call(turno.once);
drop function if exists turno.lock_tick();
drop function if exists turno.inbox_told(jsonb);
drop function if exists turno.inbox_tell(uuid, turno.inbox_settled);
drop function if exists turno.once_told(turno.once, text);
drop function if exists turno.inbox_fold();
drop function if exists turno.inbox_cut(text);
drop function if exists turno.outbox_never();
drop function if exists turno.adopt_words(turno.adopted);
drop function if exists turno.adopt_give();
drop function if exists turno.adopt_take();
drop function if exists turno.adopt_tidy();
drop function if exists turno.inbox_vanished();
drop function if exists turno.lock_line_soon(text);
drop function if exists turno.inbox_let_go(bigint[], uuid[]);
drop function if exists turno.inbox_line(integer, bigint, integer, text[], bigint[], boolean);
drop function if exists turno.deed_check(text, text);
drop function if exists turno.deed_record(text, text, text, bigint, text, text);
drop function if exists turno.inbox_places(integer, int8multirange);
drop function if exists turno.inbox_end_attempt(integer, bigint, text, text, text, timestamptz);
drop function if exists turno.inbox_abandon_each(integer, int8multirange, text);
drop function if exists turno.inbox_heads(integer, text[]);
drop function if exists turno.inbox_hold(turno.inbox_cursor, integer, bigint[], text[], uuid, text, timestamptz);
drop function if exists turno.inbox_take(turno.inbox_cursor, integer, boolean, boolean, integer, uuid, text, timestamptz, boolean);
