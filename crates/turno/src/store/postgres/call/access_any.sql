-- Calls turno.access_any.
select turno.access_any() as found
