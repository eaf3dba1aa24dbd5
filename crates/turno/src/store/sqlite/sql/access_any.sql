-- Purpose: whether an access token was ever made, revoked ones included. Index: any.
select exists (select 1 from turno_access)
