-- For the time in which old instances (the document's statements) and new ones (Turno) share the table. After `turno adopt
-- presentations --id id`; to remove it again: drop function presentations_mixed_fleet() cascade.

-- Purpose: an old instance cannot mark a row that a new one has claimed: its update affects 0 rows, which it takes for "already
--          processed by another instance". An old instance does not look at claims, so the database has to.
--          Turno's release clears processing_started_at, and so is not such a mark.
--          And the flag follows the time: Turno writes processed_at only, and the document selects by processed.
-- Index:   none.
create or replace function presentations_mixed_fleet() returns trigger
language plpgsql
as $$
begin
  if new.processed and not old.processed and new.processing_started_at is not null then
    return null;
  end if;
  new.processed := new.processed_at is not null;
  return new;
end
$$;

create or replace trigger presentations_mixed_fleet
before update on presentations
for each row
execute function presentations_mixed_fleet();
