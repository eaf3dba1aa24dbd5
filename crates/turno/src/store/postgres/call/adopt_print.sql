-- Calls turno.adopt_print. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select turno.adopt_print($1, $2, $3, $4, $5, $6, $7) as script
