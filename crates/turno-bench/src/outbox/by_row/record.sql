-- Purpose: records an event as processed. $1 id.
insert into processed_event (event_id, processed_at)
values ($1, now())
