-- Purpose: what the functions of the schema are now. Readable by every role.
-- Index:   pg_proc_proname_args_nsp_index is no help; the schema has some two hundred functions.
select
  p.proname::text as name,
  sha256(convert_to(p.prosrc, 'UTF8')) as body,
  p.prosecdef as definer,
  coalesce(p.proconfig, '{}') as settings
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'turno'
