-- Purpose: take a number of those that the ends of holdings get, so that one id orders them all. SQLite keeps it here.
update sqlite_sequence
set seq = seq + 1
where name = 'turno_lock_history'
returning seq
