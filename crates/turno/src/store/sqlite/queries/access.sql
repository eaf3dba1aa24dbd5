-- name: access_any
-- Purpose: whether an access token was ever made, revoked ones included. Index: any.
select exists (select 1 from turno_access)

-- name: access_create
-- Purpose: keep a new access token. ?1 id ?2 hash ?3 name ?4 role ?5 prefix ?6 created_at ?7 expires_at.
-- Index: the primary key.
insert into turno_access (id, hash, name, role, prefix, created_at, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: access_find
-- Purpose: an access token, with the hash that its secret must have. ?1 id. Index: the primary key.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
where id = ?1

-- name: access_list
-- Purpose: the access tokens, newest first, those that are over too. ?1 limit. Index: turno_access_created.
select id, name, role, prefix, created_at, expires_at, revoked_at, hash
from turno_access
order by created_at desc, id
limit ?1

-- name: access_revoke
-- Purpose: end an access token for good. ?1 id ?2 now. Index: the primary key.
update turno_access
set revoked_at = ?2
where id = ?1
  and revoked_at is null
