-- Purpose: give a claim back: nothing was done. ?1 key ?2 token ?3 now. Index: the primary key.
update turno_once
set state  = 'released',
    until  = ?3,
    answer = null
where key = ?1
  and token = ?2
  and state = 'running'
