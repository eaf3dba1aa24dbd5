-- Calls turno.outbox_discard. $1 ids, $2 by.
select turno.outbox_discard($1, $2) as many
