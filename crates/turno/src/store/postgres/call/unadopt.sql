-- Calls turno.unadopt. $1 table.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.unadopt($1)
