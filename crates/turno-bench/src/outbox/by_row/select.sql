-- Purpose: selects the next 50 messages.
select id, payload
from outbox_message
where dispatched_at is null
  and attempts < 5
order by occurred_at
limit 50
for update skip locked
