-- Purpose: an adopted table, and what was added to it. ?1 table. Index: the primary key.
select table_name, id_column, user_column, shape, max_attempts, text_times, columns, indexes
from turno_adopted
where table_name = ?1
