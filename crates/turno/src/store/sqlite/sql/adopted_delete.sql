-- Purpose: forget an adopted table. ?1 table. Index: the primary key.
delete from turno_adopted
where table_name = ?1
