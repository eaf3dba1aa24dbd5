-- Purpose: access tokens. Those who serve may look one up; to make, to list and to end them is for the owner of the
--          schema: these run with the rights of their caller, and the roles of applications and operators have none.
-- Index:   access_pkey, access_created.

-- What an access token is at this moment.
create or replace function turno.access_now(a turno.access) returns turno.access_view
language sql
volatile
as $$
  select row(
    a.id, a.name, a.role, a.prefix,
    case
      when a.revoked_at is not null then 'revoked'
      when a.expires_at <= clock_timestamp() then 'expired'
      else 'live'
    end,
    a.created_at, a.expires_at, a.revoked_at)::turno.access_view
$$;

create or replace function turno.access_create(
  id         text,
  hash       bytea,
  name       text,
  role       text,
  prefix     text     default '',
  expires_in interval default null
) returns turno.access_view
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  a turno.access;
begin
  perform turno.check_name('id', access_create.id, 255);
  perform turno.check_name('name', access_create.name, 255);
  if access_create.role is null or access_create.role not in ('read', 'operate', 'admin') then
    raise exception 'role is %, and must be read, operate or admin', coalesce(quote_literal(access_create.role), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Choose the least that is enough.';
  end if;
  if octet_length(access_create.hash) is distinct from 32 then
    raise exception 'hash must be the 32 bytes of a SHA-256'
      using errcode = 'invalid_parameter_value', hint = 'Use turno token create.';
  end if;
  insert into turno.access (id, hash, name, role, prefix, created_at, expires_at)
  values (
    access_create.id, access_create.hash, access_create.name, access_create.role, coalesce(access_create.prefix, ''),
    clock_timestamp(), clock_timestamp() + access_create.expires_in)
  -- Asked again, because the answer was lost.
  on conflict (id) do update
  set name = excluded.name
  where access.hash = excluded.hash
  returning * into strict a;
  return turno.access_now(a);
end
$$;

comment on function turno.access_create is
  'Keeps a new access token: its public id, the SHA-256 of its secret, what it allows. For the owner of the schema.';

create or replace function turno.access_list("limit" integer default 1000) returns setof turno.access_view
language sql
set search_path = pg_catalog, pg_temp
as $$
  select v.*
  from turno.access a
  cross join lateral turno.access_now(a) v
  order by a.created_at desc, a.id
  limit access_list."limit"
$$;

comment on function turno.access_list is 'The access tokens, newest first, those that are over too. For the owner of the schema.';

create or replace function turno.access_revoke(id text) returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
  with ended as (
    update turno.access a
    set revoked_at = clock_timestamp()
    where a.id = access_revoke.id
      and a.revoked_at is null
    returning 1)
  select exists (select from ended)
$$;

comment on function turno.access_revoke is
  'Ends an access token for good; false if there is none, or it has ended already. For the owner of the schema.';

create or replace function turno.access_find(id text, out view turno.access_view, out hash bytea) returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select turno.access_now(a), a.hash
  from turno.access a
  where a.id = access_find.id
$$;

comment on function turno.access_find is 'An access token by its id, with the hash that its secret must have.';

create or replace function turno.access_any() returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from turno.access)
$$;

comment on function turno.access_any is 'Whether an access token was ever made, revoked ones included.';
