-- Access tokens: who may ask a server. A few rows, for people; none is ever deleted, so that it stays known that there
-- were some. Of a secret only its hash is kept.
create table turno_access (
  id           text    primary key,        -- its public part
  hash         blob    not null,           -- SHA-256 of its secret part
  name         text    not null,           -- display name
  role         text    not null,           -- read, operate, admin
  prefix       text    not null,           -- the beginning of the names that it allows; empty: all
  created_at   integer not null,
  expires_at   integer,                    -- null: not by itself
  revoked_at   integer
) without rowid, strict;

create index turno_access_created on turno_access (created_at);
