-- PostgreSQL as its ordinary users have it: an owner without superuser rights, failover, rolling upgrades, silence
-- when idle.

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

-- A program that is older than the schema works on if it was built for this version or a later one. Null: only programs of
-- the version itself.
alter table turno.migration
  add column oldest_program integer;

-- The sequence of an unlogged table is unlogged since PostgreSQL 15. A promoted standby may find it without its first page
-- ("bad magic number in sequence"), and then no waiter can sign in.
do $$
begin
  if current_setting('server_version_num')::integer >= 150000 then
    execute 'alter sequence turno.lock_waiter_ticket_seq set logged';
  end if;
end
$$;

-- When the store was last swept, for `turno doctor`. One row.
create table turno.sweep_last (
  single boolean     primary key default true check (single),
  at     timestamptz not null default clock_timestamp(),
  "by"   text
);

insert into turno.sweep_last default values;

-- Who listens to a queue, by its name: it may have no row in inbox_queue yet. Unlogged: a crash ends every connection, and
-- one that listens again marks again.
create unlogged table turno.inbox_listener (
  queue        text        collate "C" primary key,
  until        timestamptz not null,           -- an idle worker listens until then: a push must notify
  since        xid8                            -- transactions from this one on have seen the mark; null: not known yet
) with (fillfactor = 50);

alter table turno.inbox_queue drop column idle_until;
