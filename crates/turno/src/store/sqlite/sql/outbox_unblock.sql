-- Purpose: a blocked event is due at once, with all its attempts before it. ?1 id ?2 now. Index: the primary key.
update turno_inbox_item
set line      = iif(group_key is null, 1, 2),
    due       = ?2,
    attempts  = 0,
    abandoned = 0
where id = ?1
