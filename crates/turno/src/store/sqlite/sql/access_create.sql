-- Purpose: keep a new access token. ?1 id ?2 hash ?3 name ?4 role ?5 prefix ?6 created_at ?7 expires_at.
-- Index: the primary key.
insert into turno_access (id, hash, name, role, prefix, created_at, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
