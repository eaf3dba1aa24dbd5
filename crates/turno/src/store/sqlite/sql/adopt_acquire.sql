-- Purpose: lock one row of an adopted table, if it is free. :id :now :cutoff. Index: the id's own.
-- The rule: not processed, and not locked, or locked since before the cutoff.
update {table}
set processing_started_at = :now,
    processing_attempts   = coalesce(processing_attempts, 0) + 1,
    processing_token      = max(coalesce(processing_token, 0) + 1, :now)
where {id} = :id
  and processed_at is null
  and (processing_started_at is null or processing_started_at <= :cutoff)
returning processing_token
