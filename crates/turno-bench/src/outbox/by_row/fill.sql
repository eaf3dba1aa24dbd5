-- Purpose: so many messages. $1 payload, $2 how many.
insert into outbox_message (payload)
select $1
from generate_series(1, $2)
