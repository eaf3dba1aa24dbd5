-- Purpose: a table of the user's own, as it was made. ?1 name. Index: none; the schema is small.
select name, sql
from sqlite_schema
where type = 'table'
  and name = ?1 collate nocase
  and name not like 'sqlite\_%' escape '\'
  and name not like 'turno\_%' escape '\'
  and sql not like 'create virtual %'
