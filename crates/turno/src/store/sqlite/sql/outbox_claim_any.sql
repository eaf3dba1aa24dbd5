-- Purpose: is there anything to claim in the order of emission, or to take over? A look, before a transaction is begun.
-- Parameters: ?1 queue ?2 now. Index: turno_inbox_item_line, turno_inbox_claim_until.
select
  exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and line in (0, 2)
      and line < 3
      and priority = 1
      and due is null)
  or exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and line in (1, 2)
      and line < 3
      and priority = 1
      and due <= ?2)
  or exists (
    select 1
    from turno_inbox_claim
    where queue = ?1
      and held > 0
      and until <= ?2)
