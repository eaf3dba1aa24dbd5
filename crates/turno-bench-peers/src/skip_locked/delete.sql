-- Completes items.
-- Parameters: $1 their ids.
-- Index: the primary key.
delete from item
where id = any($1::bigint[]);
