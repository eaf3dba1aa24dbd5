-- Claims items for 30 seconds; those that somebody else is just claiming are passed over.
-- Parameters: $1 how many.
-- Index: item_visible, in order; then the primary key.
with free as materialized (
    select id
    from item
    where visible_at <= clock_timestamp()
    order by visible_at, id
    limit $1
    for update skip locked
)
update item
set visible_at = clock_timestamp() + interval '30 seconds',
    attempt = item.attempt + 1
from free
where item.id = free.id
returning item.id, item.attempt, item.payload;
