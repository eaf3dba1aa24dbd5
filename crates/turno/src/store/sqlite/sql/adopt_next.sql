-- Purpose: lock free rows of an adopted table, those tried least often first. :user :limit :now :cutoff :max_attempts.
-- Index: <table>_turno_waiting. The rule is that of adopt_acquire.sql, for rows with attempts left.
update {table}
set processing_started_at = :now,
    processing_attempts   = coalesce(processing_attempts, 0) + 1,
    processing_token      = max(coalesce(processing_token, 0) + 1, :now)
where {id} in (
  select {id}
  from {table}
  where processed_at is null
    and (processing_started_at is null or processing_started_at <= :cutoff)
    and coalesce(processing_attempts, 0) < :max_attempts
    and (:user is null or {user} = :user)
    and {id} is not null
  order by processing_attempts, {id}
  limit :limit)
returning cast({id} as text), processing_token, processing_attempts
