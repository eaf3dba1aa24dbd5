-- Calls turno.outbox_discard. $1 ids, $2 user, $3 reason.
select turno.outbox_discard($1, $2, $3) as many
