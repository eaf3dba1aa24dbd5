-- Purpose: an item leaves its claim, to be tried again or set aside.
-- Parameters: ?1 id ?2 line ?3 due ?4 attempts ?5 abandoned ?6 errors ?7 worker. Index: the primary key.
update turno_inbox_item
set line      = ?2,
    due       = ?3,
    claim     = null,
    attempts  = ?4,
    abandoned = ?5,
    errors    = ?6,
    worker    = ?7
where id = ?1
