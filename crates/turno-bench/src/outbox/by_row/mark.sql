-- Purpose: marks a message as dispatched. $1 id.
update outbox_message
set dispatched_at = now()
where id = $1
