-- Calls turno.inbox_requeue. $1 queue, $2 items, $3 limit.
select turno.inbox_requeue($1, $2, $3) as many
