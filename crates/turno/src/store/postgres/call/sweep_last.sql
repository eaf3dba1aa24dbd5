-- Purpose: how long ago the store was last swept, and by which role.
-- Index:   none: one row.
select
  clock_timestamp() - s.at as age,
  s."by"
from turno.sweep_last() s
