-- Calls turno.outbox_leader. $1 lock_id.
select turno.outbox_leader($1) as leader
