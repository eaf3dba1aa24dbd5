-- Calls turno.once_forget. $1 key, $2 user, $3 reason.
select turno.once_forget($1, $2, $3) as done
