-- The processing lock as the document describes it, before Turno: a time, and no token.

alter table notes add column processing_started_at timestamp with time zone;

create function acquire_processing_lock(p_note_id uuid, p_lock_timeout_minutes integer default 15) returns boolean
language plpgsql
security definer
as $$
begin
  perform
  from notes
  where id = p_note_id
    and processed_at is null
    and (processing_started_at is null
      or processing_started_at < now() - make_interval(mins => p_lock_timeout_minutes))
  for update skip locked;
  if not found then
    return false;
  end if;
  update notes
  set processing_started_at = now(),
      processing_attempts   = coalesce(processing_attempts, 0) + 1
  where id = p_note_id;
  return true;
end
$$;

comment on function acquire_processing_lock(uuid, integer) is 'Attempts to acquire an exclusive processing lock for a note.';

create function release_processing_lock(p_note_id uuid) returns void
language sql
security definer
as $$
  update notes
  set processed_at          = now(),
      processing_started_at = null,
      error_message         = null
  where id = p_note_id
$$;

create function release_processing_lock_with_error(p_note_id uuid, p_error_message text) returns void
language sql
security definer
as $$
  update notes
  set processing_started_at = null,
      error_message         = p_error_message
  where id = p_note_id
$$;

create function cleanup_abandoned_processing_locks(p_timeout_minutes integer default 15) returns integer
language sql
security definer
as $$
  with abandoned as (
    update notes
    set processing_started_at = null,
        error_message         = 'Processing abandoned (timeout)'
    where processed_at is null
      and processing_started_at < now() - make_interval(mins => p_timeout_minutes)
    returning 1)
  select count(*)::integer
  from abandoned
$$;

create function get_next_notes_for_processing(
  p_user_id uuid default null,
  p_limit integer default 10,
  p_lock_timeout_minutes integer default 15
) returns setof notes
language sql
security definer
as $$
  update notes
  set processing_started_at = now(),
      processing_attempts   = coalesce(processing_attempts, 0) + 1
  where id in (
    select id
    from notes
    where processed_at is null
      and (p_user_id is null or user_id = p_user_id)
      and (processing_started_at is null
        or processing_started_at < now() - make_interval(mins => p_lock_timeout_minutes))
    order by created_at
    limit p_limit
    for update skip locked)
  returning *
$$;
