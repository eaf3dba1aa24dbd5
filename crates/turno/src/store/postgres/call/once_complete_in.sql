-- Calls turno.once_complete. $1 claim, $2 answer, $3 ttl, as text: drivers differ in what they know.
select turno.once_complete($1, $2::text::json, $3::text::interval)
