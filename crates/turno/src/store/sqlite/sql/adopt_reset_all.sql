-- Purpose: make everything that is not processed as new. Index: <table>_turno_waiting.
update {table}
set processing_started_at = null,
    processing_attempts   = 0,
    error_message         = null
where processed_at is null
  and (processing_started_at is not null or error_message is not null or processing_attempts > 0)
