-- Calls turno.inbox_rouse. $1 queue.
select turno.inbox_rouse($1)
