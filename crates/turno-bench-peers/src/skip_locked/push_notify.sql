-- Stores a batch of items and wakes who listens.
-- Parameters: $1 their payloads.
-- Index: none.
with stored as (
    insert into item (payload)
    select unnest($1::jsonb[])
)
select pg_notify('item', '');
