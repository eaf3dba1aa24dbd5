-- Once: who runs the work of a request, and what was answered. One row a key, made when the work begins; nothing but a
-- sweep or a person deletes it. What its columns mean at a moment (in flight, done, unknown, gone) is said in
-- sqlite/once.rs.
create table turno_once (
  key          text    primary key,
  fingerprint  text,                       -- of the content; null: not compared
  state        text    not null,           -- running, done, released
  token        integer not null,           -- whose work counts; only grows
  attempt      integer not null,
  request      text    not null,           -- the begin that made it so
  worker       text,                       -- name of the worker that runs it
  began_at     integer not null,
  until        integer not null,           -- running: the lease's end; done: the answer's
  ttl          integer not null,           -- how long the answer is kept
  scope        text,                       -- whose quota it counts against
  late         integer not null default 0, -- how many stale answers came
  sweep_at     integer not null,           -- not before this is it worth a look
  answer       text                        -- JSON; null and done: the answer was not stored
) without rowid, strict;

create index turno_once_sweep on turno_once (sweep_at);
create index turno_once_scope on turno_once (scope, sweep_at) where scope is not null;
