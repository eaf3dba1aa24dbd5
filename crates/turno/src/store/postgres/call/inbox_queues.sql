-- Calls turno.inbox_queues. $1 ids, $2 tokens.
select place, queue
from turno.inbox_queues($1, $2)
