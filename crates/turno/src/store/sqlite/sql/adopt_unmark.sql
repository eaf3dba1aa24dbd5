-- Purpose: take a mark back. :id. Index: the id's own.
update {table}
set processed    = 0,
    processed_at = null
where {id} = :id
  and processed is true
