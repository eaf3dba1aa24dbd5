-- Calls turno.inbox_discard. $1 queue, $2 items, $3 limit, $4 user, $5 reason.
select turno.inbox_discard($1, $2, $3, $4, $5) as many
