-- Purpose: what was answered to a request. ?1 request ?2 verb. Index: the primary key.
select answer
from turno_inbox_request
where request = ?1
  and verb = ?2
