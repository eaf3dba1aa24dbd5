-- Access tokens: who may ask a server. A few rows, for people; none is ever deleted, so that it stays known that there
-- were some. Of a secret only its hash is kept.

create table turno.access (
  id           text        collate "C" primary key, -- its public part
  hash         bytea       not null,                -- SHA-256 of its secret part
  name         text        not null,                -- what people call it
  role         text        not null,                -- read, operate, admin
  prefix       text        not null,                -- the beginning of the names that it allows; empty: all
  created_at   timestamptz not null,
  expires_at   timestamptz,                         -- null: not by itself
  revoked_at   timestamptz
);

create index access_created on turno.access (created_at);

create type turno.access_view as (
  id           text,
  name         text,
  role         text,
  prefix       text,
  state        text,                                -- live, expired, revoked
  created_at   timestamptz,
  expires_at   timestamptz,
  revoked_at   timestamptz
);
