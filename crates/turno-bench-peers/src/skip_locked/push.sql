-- Stores a batch of items.
-- Parameters: $1 their payloads.
-- Index: none.
insert into item (payload)
select unnest($1::jsonb[]);
