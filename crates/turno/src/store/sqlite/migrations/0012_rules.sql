-- The same column names as on PostgreSQL. State: 0 ready, 1 ready at its due time, 2 behind another item of its group, 3 held,
-- 4 failed. run_at: the due time, if there is one; the time of the failure of a failed item.
alter table turno_inbox_item rename column line to state;
alter table turno_inbox_item rename column due to run_at;

alter table turno_deed rename to turno_operator_action;
drop index turno_deed_resource;
create index turno_operator_action_resource on turno_operator_action (resource, id);
