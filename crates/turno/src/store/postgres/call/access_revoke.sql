-- Calls turno.access_revoke. $1 id.
select turno.access_revoke($1) as ended
