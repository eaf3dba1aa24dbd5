-- Purpose: who relays events, how long ago the last one left, and how long the oldest one has waited.
-- Index:   outbox_sent_pkey, inbox_item_due.
select
  turno.outbox_leader() as leader,
  clock_timestamp() - sent.at as last_age,
  waits.oldest as oldest_age
from (select 1) one
left join lateral (
  select d.at
  from turno.outbox_list('dispatched', null, 1) d
  limit 1) sent on true
left join lateral (
  select s.oldest_pending as oldest
  from turno.outbox_stats() s) waits on true
