-- What `turno doctor` says of the numbers of items. Index: as in inbox_sequence.sql.
select last_id, highest_id, unreachable
from turno.inbox_numbers()
