-- Calls turno.adopt. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.adopt($1, $2, $3, $4, $5, $6, $7)
