-- Purpose: what is next in the order of emission, whatever is under way of the same key.
-- Parameters: ?1 queue ?2 now ?3 limit. Index: turno_inbox_item_line, four times from its front.
select id, attempts, max_attempts, payload, key, group_key, priority, pushed_at, due, abandoned
from (
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and line = 0 and line < 3 and priority = 1 and due is null
    order by id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and line = 1 and line < 3 and priority = 1 and due <= ?2
    order by due, id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and line = 2 and line < 3 and priority = 1 and due is null
    order by id
    limit ?3)
  union all
  select *
  from (
    select *
    from turno_inbox_item
    where queue = ?1 and line = 2 and line < 3 and priority = 1 and due <= ?2
    order by due, id
    limit ?3))
order by id
limit ?3
