-- Purpose: inserts messages. $1 payload, $2 number of messages.
insert into outbox_message (payload)
select $1
from generate_series(1, $2)
