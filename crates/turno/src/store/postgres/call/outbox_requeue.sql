-- Calls turno.outbox_requeue. $1 ids, $2 limit, $3 user, $4 reason.
select turno.outbox_requeue($1, $2, $3, $4) as many
