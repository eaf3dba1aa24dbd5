-- Calls turno.inbox_reset. $1 queue, $2 older than, $3 limit, $4 user, $5 reason.
select turno.inbox_reset($1, $2, $3, $4, $5) as many
