-- Purpose: when the store was last swept, and by which process.
-- Index:   none: one row.
select at, "by"
from turno_sweep_last
