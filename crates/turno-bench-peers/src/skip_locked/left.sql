-- How many items are not done.
-- Parameters: none.
-- Index: none, it counts all there are.
select count(*)
from item;
