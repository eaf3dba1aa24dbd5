-- Purpose: whether this very lock was released as processed: its release may be sent twice. :id :token.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processed_at is not null)
