-- Calls turno.once_forget. $1 key.
select turno.once_forget($1) as done
