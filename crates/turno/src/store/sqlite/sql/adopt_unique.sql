-- Purpose: whether a column alone tells one row from another. ?1 table ?2 column. Index: none.
select
  (select group_concat(name) = ?2
  from pragma_table_info(?1)
  where pk > 0)
  or exists (
    select 1
    from pragma_index_list(?1) l
    where l."unique"
      and not l.partial
      and (select group_concat(name) from pragma_index_info(l.name)) = ?2)
