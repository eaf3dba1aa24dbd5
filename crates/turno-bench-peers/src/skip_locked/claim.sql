-- Claims items for 30 seconds. Rows locked by another claim are skipped. It uses an array, because then the plan is the same
-- for one item and for many.
-- Parameters: $1 maximum number of items.
-- Index: item_visible, in order; then the primary key.
update item
set visible_at = clock_timestamp() + interval '30 seconds',
    attempt = attempt + 1
where id = any (array(
    select id
    from item
    where visible_at <= clock_timestamp()
    order by visible_at, id
    limit $1
    for update skip locked
))
returning id, attempt, payload;
