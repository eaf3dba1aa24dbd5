-- For the time in which old instances (the document's statements) and new ones (Turno) share the table. After `turno adopt
-- presentations --id id`; to remove it again, drop both triggers.

-- Purpose: an old instance cannot mark a row that a new one has claimed: its update affects 0 rows. Turno's release clears
--          processing_started_at, and so is not such a mark.
create trigger if not exists presentations_claimed
before update of processed on presentations
when new.processed and not old.processed and new.processing_started_at is not null
begin
  select raise(ignore);
end;

-- Purpose: the flag follows the time: Turno writes processed_at only, and the document selects by processed.
create trigger if not exists presentations_processed
after update of processed_at on presentations
when new.processed <> (new.processed_at is not null)
begin
  update presentations
  set processed = (new.processed_at is not null)
  where id = new.id;
end;
