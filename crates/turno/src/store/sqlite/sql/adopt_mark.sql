-- Purpose: mark a row, if nobody has. :id :at. Index: the id's own.
update {table}
set processed    = 1,
    processed_at = :at
where {id} = :id
  and processed is not true
