-- Calls turno.seen. $1 consumer, $2 event_id, as text.
select turno.seen($1, $2::text::uuid) as first
