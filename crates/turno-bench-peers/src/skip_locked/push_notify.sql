-- Stores a batch of items and notifies listeners.
-- Parameters: $1 their payloads.
-- Index: none.
with stored as (
    insert into item (payload)
    select unnest($1::jsonb[])
)
select pg_notify('item', '');
