-- The space of deleted rows is used again by new ones. So a BRIN index, which knows the oldest row of each range of pages, soon
-- finds an old row in every range, and a sweep reads the whole table. These tables are written in the order of time, which makes a
-- B-tree cheap.
drop index if exists turno.inbox_request_at;
create index inbox_request_at on turno.inbox_request (at);
drop index if exists turno.outbox_archive_at;
create index outbox_archive_at on turno.outbox_archive (dispatched_at);
drop index if exists turno.seen_at;
create index seen_at on turno.seen (at);

-- A sweep takes them in the order of their numbers.
drop index if exists turno.outbox_sent_at;
