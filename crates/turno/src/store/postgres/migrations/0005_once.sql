-- Once: who runs the work of a request, and what was answered. One row a key, made when the work begins; nothing but a
-- sweep or a person deletes it. What its columns mean at a moment (in flight, done, unknown, gone) is said in
-- once_state (sql/once.sql), and nowhere else.

create table turno.once (
  key          text        collate "C" primary key,
  fingerprint  text,                           -- of the content; null: not compared
  state        text        not null,           -- running, done, released
  token        bigint      not null,           -- whose work counts; only grows
  attempt      integer     not null,
  request      uuid        not null,           -- the begin that made it so
  worker       text,                           -- who runs it, as people see it
  began_at     timestamptz not null,
  until        timestamptz not null,           -- running: the lease's end; done: the answer's
  ttl          interval    not null,           -- how long the answer is kept
  waited_until timestamptz,                    -- a caller waits for the answer, and must be notified
  scope        text,                           -- whose quota it counts against
  late         integer     not null default 0, -- how many stale answers came
  sweep_at     timestamptz not null,           -- not before this is it worth a look
  answer       json                            -- null and done: the answer was not stored
)
-- An answer is written beside its claim, on the same page.
with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- As a rule neither of these changes when an answer is stored, so that no index has to be written then.
create index once_sweep on turno.once (sweep_at);
create index once_scope on turno.once (scope, sweep_at) where scope is not null;

create type turno.once_outcome as (
  outcome      text,                           -- fresh, replay, in_flight, mismatch, unknown, over_quota; later
  key          text,
  token        bigint,
  attempt      integer,
  answer       json,
  began_at     timestamptz,
  expires_at   timestamptz,
  remaining    interval,
  worker       text,
  claim        text                            -- fresh: what once_complete and once_release are given
);

create type turno.once_view as (
  key          text,
  state        text,                           -- in_flight, done, unknown
  claim        text,
  attempt      integer,
  fingerprint  text,
  worker       text,
  scope        text,
  began_at     timestamptz,
  expires_at   timestamptz,
  late         integer,
  answer       json
);

alter type turno.swept add attribute once bigint;
