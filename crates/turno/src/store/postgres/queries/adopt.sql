-- name: adopt
-- Calls turno.adopt. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.adopt($1, $2, $3, $4, $5, $6, $7)

-- name: adopt_difference
-- Calls turno.adopt_difference. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts.
select turno.adopt_difference($1, $2, $3, $4, $5, $6) as difference

-- name: adopt_print
-- Calls turno.adopt_print. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select turno.adopt_print($1, $2, $3, $4, $5, $6, $7) as script

-- name: adopted_calls
-- Calls turno.adopted_calls. $1 table.
select verb, call
from turno.adopted_calls($1, current_schemas(false))

-- name: unadopt
-- Calls turno.unadopt. $1 table.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.unadopt($1)
