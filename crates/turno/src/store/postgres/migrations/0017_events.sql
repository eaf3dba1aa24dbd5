-- Version 17: a worker under a steady load looks at short intervals, and pushes do not notify meanwhile.

-- Added to the table of version 9. Null: no worker looks at short intervals.
alter table turno.inbox_listener add column if not exists polled_until timestamptz;
