-- Purpose: in which queue a claim is; none, if it is over. ?1 item ?2 token. Index: the primary keys.
select q.name
from turno_inbox_item i
join turno_inbox_claim c on c.id = i.claim
join turno_inbox_queue q on q.id = c.queue
where i.id = ?1
  and c.token = ?2
