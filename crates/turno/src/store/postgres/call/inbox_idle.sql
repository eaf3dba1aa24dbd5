-- Calls turno.inbox_idle. $1 queue, $2 listens, $3 looked.
select due, sure
from turno.inbox_idle($1, $2, $3)
