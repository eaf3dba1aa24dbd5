-- A sweep reads the pages that these indexes have not summarised, so they are summarised soon.
alter index turno.inbox_request_at set (autosummarize = on);
alter index turno.outbox_archive_at set (autosummarize = on);
alter index turno.outbox_sent_at set (autosummarize = on);
alter index turno.seen_at set (autosummarize = on);
