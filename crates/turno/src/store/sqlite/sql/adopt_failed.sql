-- Purpose: whether this very lock was released with this error: its release may be sent twice. :id :token :error.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processing_started_at is null
    and processed_at is null
    and error_message = :error)
