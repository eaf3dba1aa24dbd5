-- Calls turno.schedule_state. $1 name.
select now, last
from turno.schedule_state($1)
