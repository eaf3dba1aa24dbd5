-- Purpose: how many rows are marked. :user. Index: none; it looks at every row.
select
  count(*),
  count(*) filter (where processed is not true),
  0,
  count(*) filter (where processed is true),
  0
from {table}
where :user is null
  or {user} = :user
