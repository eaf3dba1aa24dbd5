-- Calls turno.outbox_settle. $1 token, $2 sent, $3 refused, $4 errors, $5 retry_ins, $6 dead, $7 doubtful, $8 archive,
-- $9 request, $10 deferred, $11 delays.
select sent, refused, returned, stale
from turno.outbox_settle($1, $2::text::int8multirange, $3, $4, $5, $6, $7::text::int8multirange, $8, $9, $10, $11)
