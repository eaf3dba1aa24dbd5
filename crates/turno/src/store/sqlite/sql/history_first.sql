-- Purpose: take the first number, when no holding has ended yet.
insert into sqlite_sequence (name, seq)
values ('turno_lock_history', 1)
