-- Purpose: the columns of a table. ?1 table. Index: none.
select name, upper(type)
from pragma_table_info(?1)
order by cid
