-- Calls turno.lock_wait for each, in the order of their names: two processes that sign the same waiters in do not wait for
-- each other crosswise. $1 resources, $2 owners, $3 fifos, $4 users, $5 services, $6 descriptions.
select
  a.place,
  turno.lock_wait(a.resource, a.owner, a.fifo, a."user", a.service, a.description) as lock_wait
from (
  select w.*
  from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::text[], $6::text[])
    with ordinality w(resource, owner, fifo, "user", service, description, place)
  order by w.resource, w.owner
  offset 0) a
