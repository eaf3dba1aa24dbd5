-- Calls turno.outbox_recover.
select turno.outbox_recover() as many
