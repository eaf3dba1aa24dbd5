-- Number of items that are not done.
-- Parameters: none.
-- Index: none, it counts all rows.
select count(*)
from item;
