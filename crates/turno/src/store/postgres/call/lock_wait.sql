-- Calls turno.lock_wait. $1 resource, $2 owner, $3 fifo, $4 user, $5 service, $6 description.
select turno.lock_wait($1, $2, $3, $4, $5, $6)
