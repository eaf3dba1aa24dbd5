-- Purpose: unlock what has been locked for too long, as failed. :cutoff :error. Index: <table>_turno_processing.
update {table}
set processing_started_at = null,
    error_message         = :error
where processing_started_at is not null
  and processing_started_at <= :cutoff
  and processed_at is null
