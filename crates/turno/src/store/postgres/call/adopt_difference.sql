-- Calls turno.adopt_difference. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts.
select turno.adopt_difference($1, $2, $3, $4, $5, $6) as difference
