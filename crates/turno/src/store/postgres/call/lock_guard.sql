-- Calls turno.lock_guard, in the caller's transaction. $1 resource, $2 token.
select turno.lock_guard($1, $2)
