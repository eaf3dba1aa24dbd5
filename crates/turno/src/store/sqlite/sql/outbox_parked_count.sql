-- Purpose: how many keys are parked.
select count(*)
from turno_outbox_parked
