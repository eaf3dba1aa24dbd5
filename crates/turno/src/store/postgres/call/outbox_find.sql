-- Calls turno.outbox_find. $1 id.
select seq, id, state, key, event::text, refused, doubtful, "by", emitted_at, at, errors::text
from turno.outbox_find($1)
