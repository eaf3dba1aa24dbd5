-- Calls turno.adopted_calls. $1 table.
select verb, call
from turno.adopted_calls($1, current_schemas(false))
