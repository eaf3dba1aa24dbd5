-- Purpose: forget a key that is not in flight; a person decides. ?1 key ?2 now. Index: the primary key.
delete from turno_once
where key = ?1
  and (state = 'done' or until <= ?2)
returning token
