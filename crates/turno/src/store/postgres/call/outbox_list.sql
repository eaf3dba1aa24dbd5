-- Calls turno.outbox_list. $1 state, $2 after, $3 limit.
select seq, id, state, key, event::text, refused, doubtful, "by", emitted_at, at, errors::text
from turno.outbox_list($1, $2, $3)
