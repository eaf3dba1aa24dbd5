-- Purpose: size and dead rows of each table, indexes and out-of-line values included. Readable by every role.
-- Index:   none.
select
  c.relname::text as name,
  pg_total_relation_size(c.oid) as bytes,
  coalesce(s.n_live_tup, 0) as live,
  coalesce(s.n_dead_tup, 0) as dead
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_stat_all_tables s on s.relid = c.oid
where n.nspname = 'turno'
  and c.relkind = 'r'
