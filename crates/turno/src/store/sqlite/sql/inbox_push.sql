-- Purpose: store one item.
-- Parameters: ?1 id ?2 queue ?3 priority ?4 due or null ?5 max_attempts ?6 now ?7 key ?8 group ?9 payload.
-- Index: turno_inbox_item_group.
--
-- The rule: whoever has one of its group before it, in whatever state but failed, stands behind it.
insert into turno_inbox_item (
  id, queue, line, priority, due, max_attempts, pushed_at, key, group_key, payload)
values (
  ?1, ?2,
  case
    when ?8 is not null and exists (
      select 1
      from turno_inbox_item
      where queue = ?2
        and group_key = ?8
        and line < 4)
    then 2
    when ?4 is not null then 1
    else 0
  end,
  ?3, ?4, ?5, ?6, ?7, ?8, ?9)
