-- Purpose: is there anything to claim or to take over? A look, before a transaction is begun.
-- Parameters: ?1 queue ?2 now. Index: turno_inbox_item_line, turno_inbox_claim_until.
select
  exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and line = 0
      and line < 3)
  or exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and line = 1
      and line < 3
      and priority in (0, 1, 2, 3)
      and due <= ?2)
  or exists (
    select 1
    from turno_inbox_claim
    where queue = ?1
      and held > 0
      and until <= ?2)
