-- Null: the record of one item. Otherwise the items from id to last_id, of which none has a key: no other queue's item is among them.
alter table turno_inbox_done add column last_id integer;
