-- name: adopt_acquire
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

-- name: adopt_cleanup
-- Purpose: unlock what has been locked for too long, as failed. :cutoff :error. Index: <table>_turno_processing.
update {table}
set processing_started_at = null,
    error_message         = :error
where processing_started_at is not null
  and processing_started_at <= :cutoff
  and processed_at is null

-- name: adopt_columns
-- Purpose: the columns of a table. ?1 table. Index: none.
select name, upper(type)
from pragma_table_info(?1)
order by cid

-- name: adopt_fail
-- Purpose: processing a row of an adopted table failed; only for its newest lock. :id :token :error.
-- Index: the id's own.
update {table}
set error_message         = :error,
    processing_started_at = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null

-- name: adopt_failed
-- Purpose: whether this lock was released with this error: its release may be sent twice. :id :token :error.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processing_started_at is null
    and processed_at is null
    and error_message = :error)

-- name: adopt_mark
-- Purpose: mark a row, if it is not marked. :id :at. Index: the id's own.
update {table}
set processed    = 1,
    processed_at = :at
where {id} = :id
  and processed is not true

-- name: adopt_next
-- Purpose: lock free rows of an adopted table, those tried least often first. :user :limit :now :cutoff :max_attempts.
-- Index: <table>_turno_waiting. The rule is that of adopt_acquire, for rows with attempts left.
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

-- name: adopt_release
-- Purpose: a row of an adopted table is processed; only for its newest lock. :id :token :at. Index: the id's own.
update {table}
set processed_at          = :at,
    processing_started_at = null,
    error_message         = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null

-- name: adopt_released
-- Purpose: whether this lock was released as processed: its release may be sent twice. :id :token.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processed_at is not null)

-- name: adopt_reset_all
-- Purpose: make everything that is not processed as new. Index: <table>_turno_waiting.
update {table}
set processing_started_at = null,
    processing_attempts   = 0,
    error_message         = null
where processed_at is null
  and (processing_started_at is not null or error_message is not null or processing_attempts > 0)

-- name: adopt_reset_stuck
-- Purpose: unlock what has been locked for too long. :cutoff. Index: <table>_turno_processing.
update {table}
set processing_started_at = null
where processing_started_at is not null
  and processing_started_at <= :cutoff
  and processed_at is null

-- name: adopt_stats
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

-- name: adopt_stats_marked
-- Purpose: how many rows are marked. :user. Index: none; it looks at every row.
select
  count(*),
  count(*) filter (where processed is not true),
  0,
  count(*) filter (where processed is true),
  0
from {table}
where :user is null
  or {user} = :user

-- name: adopt_table
-- Purpose: a table of the user's own, as it was made. ?1 name. Index: none; the schema is small.
select name, sql
from sqlite_schema
where type = 'table'
  and name = ?1 collate nocase
  and name not like 'sqlite\_%' escape '\'
  and name not like 'turno\_%' escape '\'
  and sql not like 'create virtual %'

-- name: adopt_unique
-- Purpose: whether a column alone tells one row from another. ?1 table ?2 column. Index: none.
select
  (select group_concat(name) = ?2
  from pragma_table_info(?1)
  where pk > 0)
  or exists (
    select 1
    from pragma_index_list(?1) l
    where l."unique"
      and not l.partial
      and (select group_concat(name) from pragma_index_info(l.name)) = ?2)

-- name: adopt_unmark
-- Purpose: take a mark back. :id. Index: the id's own.
update {table}
set processed    = 0,
    processed_at = null
where {id} = :id
  and processed is true

-- name: adopted_delete
-- Purpose: forget an adopted table. ?1 table. Index: the primary key.
delete from turno_adopted
where table_name = ?1

-- name: adopted_find
-- Purpose: an adopted table, and what was added to it. ?1 table. Index: the primary key.
select table_name, id_column, user_column, shape, max_attempts, text_times, columns, indexes
from turno_adopted
where table_name = ?1
