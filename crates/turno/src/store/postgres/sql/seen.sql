-- Purpose: the consumer's side of at-least-once: true the first time only, in the consumer's own transaction.
-- Index:   seen_pkey.

create or replace function turno.seen(consumer text, event_id uuid) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform turno.check_name('consumer', seen.consumer, 255);
  if seen.event_id is null then
    raise exception 'event_id is null'
      using errcode = 'invalid_parameter_value', hint = 'Give the message id of what was delivered.';
  end if;
  -- Whoever is just handling the same event in another transaction is waited for: it may roll back.
  insert into turno.seen (consumer, event_id, at)
  values (seen.consumer, seen.event_id, clock_timestamp())
  on conflict do nothing;
  return found;
end
$$;

comment on function turno.seen is
  'True if this consumer sees the event for the first time, and remembers it together with what else this transaction does: handle the event only then.';
