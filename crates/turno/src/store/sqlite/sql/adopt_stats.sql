-- Purpose: how many rows are in which state. :user. Index: none; it looks at every row.
select
  count(*),
  count(*) filter (where processed_at is null and processing_started_at is null and error_message is null),
  count(*) filter (where processed_at is null and processing_started_at is not null),
  count(*) filter (where processed_at is not null),
  count(*) filter (where processed_at is null and processing_started_at is null and error_message is not null)
from {table}
where :user is null
  or {user} = :user
