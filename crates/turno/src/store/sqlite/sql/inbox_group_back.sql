-- Purpose: whoever of a group might go next stands behind again, because an earlier one may have come back.
-- Parameters: ?1 queue ?2 group. Index: turno_inbox_item_group.
update turno_inbox_item
set line = 2
where queue = ?1
  and group_key = ?2
  and line in (0, 1)
