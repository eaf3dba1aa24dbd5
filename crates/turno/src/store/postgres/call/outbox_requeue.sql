-- Calls turno.outbox_requeue. $1 ids, $2 limit.
select turno.outbox_requeue($1, $2) as many
