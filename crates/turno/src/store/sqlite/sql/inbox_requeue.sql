-- Purpose: a failed item is due at once, with all its attempts before it. ?1 id ?2 line ?3 now.
-- Index: the primary key.
update turno_inbox_item
set line      = ?2,
    due       = ?3,
    attempts  = 0,
    abandoned = 0
where id = ?1
