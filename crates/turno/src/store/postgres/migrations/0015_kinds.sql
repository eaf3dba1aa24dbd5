-- What calls for one item have to know of a queue is in its row: see turno.inbox_queue_learn.
alter table turno.inbox_queue
  add column priority_mask integer not null default 0,
  add column grouped boolean not null default false,
  add column bytes integer not null default 0;
update turno.inbox_queue t
set priority_mask = k.priority_mask,
    grouped = k.grouped,
    bytes = k.bytes
from (
  select d.queue_id, bit_or(d.priority_mask) as priority_mask, bool_or(d.grouped) as grouped, max(d.bytes) as bytes
  from turno.inbox_kind d
  group by d.queue_id) k
where k.queue_id = t.id;

-- Its statements are in turno.inbox_claim_one.
drop function if exists turno.inbox_claim_line(integer, integer, bigint, uuid, text, timestamptz);
