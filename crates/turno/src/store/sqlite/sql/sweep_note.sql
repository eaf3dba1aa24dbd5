-- Purpose: notes that a sweep took place.
-- Index:   none: one row.
update turno_sweep_last
set at = ?1, "by" = ?2
