-- Calls turno.lock_break. $1 resource, $2 token, $3 reason, $4 user, $5 request.
select turno.lock_break($1, $2, $3, $4, $5)
