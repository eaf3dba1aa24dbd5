-- Calls turno.inbox_list. $1 queue, $2 state, $3 after, $4 limit.
select id, payload::text, key, "group", priority, attempts, abandoned, worker, pushed_at, at, errors::text
from turno.inbox_list($1, $2, $3, $4)
