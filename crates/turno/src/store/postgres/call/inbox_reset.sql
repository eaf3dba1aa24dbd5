-- Calls turno.inbox_reset. $1 queue, $2 older than, $3 limit.
select turno.inbox_reset($1, $2, $3) as many
