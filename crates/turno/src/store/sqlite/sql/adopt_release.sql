-- Purpose: a row of an adopted table is processed; only for its newest lock. :id :token :at. Index: the id's own.
update {table}
set processed_at          = :at,
    processing_started_at = null,
    error_message         = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null
