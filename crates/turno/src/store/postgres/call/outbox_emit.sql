-- Calls turno.outbox_emit_batch, whatever the driver: times and ids travel as text. $1 types, $2 payloads, $3 keys,
-- $4 correlation_ids, $5 traceparents, $6 tracestates, $7 headers, $8 delays, $9 ids, $10 request.
select turno.outbox_emit_batch(
  $1, $2, $3, $4, $5, $6, $7, $8::text[]::interval[], $9::text[]::uuid[], 1073741823, $10::text::uuid)::text[] as ids
