-- The document's own tables, as Entity Framework creates them, with a column for the aggregate: the ticket of an event.
create table "OutboxMessages" (
  "Id"            uuid primary key,
  "Type"          varchar(500) not null,
  "PayloadJson"   text not null,
  "CorrelationId" varchar(100),
  "OccurredAt"    timestamptz not null,
  "DispatchedAt"  timestamptz,
  "Attempts"      integer not null default 0,
  "Error"         varchar(2000),
  "AggregateId"   varchar(100) not null
);

create table "ProcessedEvents" (
  "EventId"     uuid primary key,
  "ProcessedAt" timestamp not null
);
