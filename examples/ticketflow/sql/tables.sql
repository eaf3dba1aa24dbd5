-- The application's own tables, on either database.
create table if not exists tickets (
  id     text primary key,
  title  text not null,
  status text not null
);

-- What the consumer does with events. Nothing in it is unique: an event that is handled twice would show.
create table if not exists notifications (
  event_id       text not null,
  ticket_id      text not null,
  type           text not null,
  correlation_id text
);
