-- No table changes: functions that an ordinary database owner may create (sql/lock_batch.sql).

-- Functions of the user's own that adopt has replaced: their signatures, and the statements by which unadopt
-- restores them.
alter table turno.adopted
  add column replaced text[] not null default '{}',
  add column restore  text[] not null default '{}';

-- These have other arguments now.
drop function if exists turno.adopt(text, text, text, text, text, integer);
drop function if exists turno.adopt_print(text, text, text, text, text, integer);
drop function if exists turno.adopt_apply(turno.adopted);
drop function if exists turno.adopt_plan(turno.adopted);
drop function if exists turno.adopt_refuse_taken(turno.adopted, text[]);
drop function if exists turno.adopt_make_function(turno.adopted, turno.adopt_function);
