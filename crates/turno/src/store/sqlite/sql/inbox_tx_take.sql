-- Purpose: in the caller's transaction, an item is done, if it is held under this token. ?1 id ?2 token.
-- Answers what is left to be done for it; no row means that the claim is stale.
-- Index: the primary key, the token's unique index.
delete from turno_inbox_item
where id = ?1
  and claim = (
    select c.id
    from turno_inbox_claim c
    where c.token = ?2)
returning queue, claim, key, group_key, errors
