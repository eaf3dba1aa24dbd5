-- Purpose: processing a row of an adopted table failed; only for its newest lock. :id :token :error.
-- Index: the id's own.
update {table}
set error_message         = :error,
    processing_started_at = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null
