-- Calls turno.lock_leave. $1 resource, $2 owner.
select turno.lock_leave($1, $2)
