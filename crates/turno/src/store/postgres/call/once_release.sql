-- Calls turno.once_release. $1 claim, $2 unknown.
select turno.once_release($1, $2) as done
