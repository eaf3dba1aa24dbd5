-- Purpose: the first of a group may go, unless another of it is held. ?1 queue ?2 group.
-- Index: turno_inbox_item_group.
update turno_inbox_item
set line = iif(due is null, 0, 1)
where id = (
    select id
    from turno_inbox_item
    where queue = ?1
      and group_key = ?2
      and line = 2
    order by id
    limit 1)
  and not exists (
    select 1
    from turno_inbox_item
    where queue = ?1
      and group_key = ?2
      and line = 3)
