-- Locks: one row a resource, so that taking a free lock changes exactly one row.
--
-- Only the primary key is indexed, and half of each page is left free: every acquire, renew and
-- release is then a heap-only update. An index on any column that they change would undo that.

create table turno.lock (
  resource    text        collate "C" primary key,
  token       bigint      not null,          -- the last token granted; never goes back
  mode        text        not null,          -- exclusive: the holder is in this row; shared: in lock_hold
  owner       text        not null,
  holds       integer     not null,          -- 0: free
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,                   -- no caller may take it before this, even when released
  max_until   timestamptz,                   -- no renewal reaches past this
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}', -- one for each hold: the request that took it
  requests    uuid[]      not null default '{}', -- the last releases that named no hold
  waited_until timestamptz,                  -- a caller waits until then: a release must notify
  fifo_until  timestamptz                    -- a caller waits in order until then: look there first
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row a shared hold. lock.expires_at is then the latest of its holds, so that an exclusive
-- acquire still has to look at one row only.
create table turno.lock_hold (
  resource    text        collate "C" not null,
  token       bigint      not null,
  owner       text        not null,
  holds       integer     not null,
  acquired_at timestamptz not null,
  expires_at  timestamptz not null,
  min_until   timestamptz,
  max_until   timestamptz,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  hold_ids    uuid[]      not null default '{}',
  requests    uuid[]      not null default '{}',
  primary key (resource, token)
) with (fillfactor = 70);

-- Who waits for what. Unlogged: a crash forgets the queue, and the waiters, who keep
-- signing in while they wait, form it again.
create unlogged table turno.lock_waiter (
  resource    text        collate "C" not null,
  owner       text        not null,
  ticket      bigint      generated always as identity,
  fifo        boolean     not null,
  since       timestamptz not null,
  alive_until timestamptz not null,          -- a waiter that died stops counting then
  "user"      text,
  service     text,
  description text,
  primary key (resource, owner)
) with (fillfactor = 70);

-- One row a holding, written when it ends, and one a late arrival.
create table turno.lock_history (
  id          bigint      generated always as identity primary key,
  at          timestamptz not null default clock_timestamp(),
  event       text        not null,
  resource    text        collate "C" not null,
  token       bigint      not null,
  mode        text        not null,
  owner       text,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  actor       text,                          -- the person who broke it
  reason      text,
  request     uuid                           -- what ended it, should it be asked again
);

create index lock_history_resource on turno.lock_history (resource, id);

-- The highest token of any purged row: a resource that comes back starts above it.
create table turno.lock_floor (
  only_row    boolean     primary key default true check (only_row),
  token       bigint      not null
);

insert into turno.lock_floor (token) values (0);

-- What lock_acquire was asked for, handed whole to the functions that decide.
create type turno.lock_ask as (
  resource    text,
  owner       text,
  ttl         interval,
  "user"      text,
  service     text,
  description text,
  mode        text,
  permits     integer,
  min_hold    interval,
  max_hold    interval,
  host        text,
  pid         integer,
  request     uuid,
  max_ttl     interval
);

create type turno.lock_outcome as (
  outcome     text,                          -- acquired, reentered, busy
  resource    text,
  owner       text,                          -- of the lease, or of who has it
  token       bigint,                        -- of the lease; null when busy
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,                      -- of the lease, or of who has it, on this clock
  "user"      text,
  service     text,
  description text
);

create type turno.lock_renewal as (
  outcome     text,                          -- renewed, lost
  expires_at  timestamptz,
  remaining   interval
);

create type turno.lock_ending as (
  outcome     text,                          -- released, lost
  holds       integer                        -- holds that the owner still has
);

create type turno.lock_info as (
  resource    text,
  locked      boolean,
  mode        text,
  owner       text,
  token       bigint,
  holds       integer,
  acquired_at timestamptz,
  expires_at  timestamptz,
  remaining   interval,
  "user"      text,
  service     text,
  description text,
  host        text,
  pid         integer,
  waiters     bigint
);

create type turno.swept as (
  expired     bigint,                        -- holdings closed because their time was up
  purged      bigint,                        -- rows of resources long unused
  waiters     bigint,
  history     bigint
);
