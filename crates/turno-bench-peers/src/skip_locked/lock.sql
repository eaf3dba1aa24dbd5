-- Claims items until the transaction ends.
-- Parameters: $1 maximum number of items.
-- Index: item_visible, in order.
select id, attempt, payload
from item
where visible_at <= clock_timestamp()
order by visible_at, id
limit $1
for update skip locked;
