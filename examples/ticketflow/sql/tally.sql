-- What became of the events of all tickets, each of which changed its status at most once.
with expected as (
  select id as ticket_id, 'TicketFlow.Domain.Events.TicketCreatedEvent' as type
  from tickets
  union all
  select id, 'TicketFlow.Domain.Events.TicketStatusChangedEvent'
  from tickets
  where status <> 'Open'),
handled as (
  select ticket_id, type, count(*) as times
  from notifications
  group by ticket_id, type)
select
  (select count(*) from tickets),
  (select count(*) from expected),
  (select count(*) from notifications),
  (select count(*)
   from expected e
   left join handled h on h.ticket_id = e.ticket_id and h.type = e.type
   where h.times is null),
  (select count(*)
   from handled h
   left join expected e on e.ticket_id = h.ticket_id and e.type = h.type
   where e.type is null),
  (select cast(coalesce(sum(times - 1), 0) as bigint) from handled)
