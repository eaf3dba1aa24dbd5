-- Purpose: the plans of the functions of inbox, outbox and once are the same whatever the statistics say, or do not say yet: along the
--          indexes, row by row. What is called from inside inherits it from the public function around it.
-- Index:   all of them.

do $$
declare
  f regprocedure;
begin
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'turno'::regnamespace
      and p.proname ~ '^(inbox|outbox|once)_'
      and p.prosecdef
      -- Those in SQL only pass their arguments on.
      and p.prolang = (select l.oid from pg_language l where l.lanname = 'plpgsql')
  loop
    execute format(
      'alter function %s set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off '
      'set enable_mergejoin = off set enable_bitmapscan = off set jit = off', f);
  end loop;
end
$$;
