drop index turno_once_open;
drop index turno_inbox_key_done;
alter table turno_inbox_key drop column done_at;
alter table turno_inbox_item rename column state to line;
alter table turno_inbox_item rename column run_at to due;
drop table turno_operator_action;
drop table turno_sweep_last;
delete from turno_migration where version > 6;
alter table turno_migration drop column oldest_program;
