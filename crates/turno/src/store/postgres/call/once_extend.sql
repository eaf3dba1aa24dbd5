-- Calls turno.once_extend. $1 claim, $2 lease.
select turno.once_extend($1, $2) as done
