-- Calls turno.inbox_wait. $1 queue.
select turno.inbox_wait($1) as next_due
