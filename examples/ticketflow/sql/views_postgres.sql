-- The document's two tables as views, so that its "Queries Útiles" work to the letter. They read Turno's functions, never its
-- tables. Dispatched events have left the outbox: of these, only the id and the time are known.
create or replace view OutboxMessages as
select
  e.id                                as Id,
  e.event ->> 'type'                  as Type,
  e.event -> 'payload'                as PayloadJson,
  e.event ->> 'correlation_id'        as CorrelationId,
  e.emitted_at                        as OccurredAt,
  null::timestamptz                   as DispatchedAt,
  e.refused                           as Attempts,
  e.errors -> -1 ->> 'error'          as Error
from unnest(array['pending', 'scheduled', 'processing', 'dead', 'blocked']) s (state)
cross join lateral turno.outbox_list(s.state, null, 1000000) e
union all
select e.id, null, null, null, null, e.at, 0, null
from turno.outbox_list('dispatched', null, 1000000) e;

create or replace view ProcessedEvents as
select
  e.id as EventId,
  e.at as ProcessedAt
from turno.outbox_list('dispatched', null, 1000000) e;

-- The document's "Insertar manualmente un ProcessedEvent": the consumers then count the event as handled already.
create or replace function processed_events_insert() returns trigger
language plpgsql
as $$
begin
  perform turno.seen('notifications', new.EventId);
  return new;
end
$$;

create or replace trigger processed_events_insert
instead of insert on ProcessedEvents
for each row
execute function processed_events_insert();
