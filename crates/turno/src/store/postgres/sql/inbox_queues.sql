-- Purpose: in which queues claims are, for whoever has to know before it settles them; a claim that is over is in none.
-- Index:   inbox_batch_pkey, inbox_queue_pkey.

create or replace function turno.inbox_queues(ids bigint[], tokens uuid[]) returns table (place bigint, queue text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select a.place, q.name
  from unnest(inbox_queues.ids, inbox_queues.tokens) with ordinality a(id, token, place)
  cross join lateral (
    select t.queue_id
    from turno.inbox_batch t
    where t.token = a.token
      and t.ids @> a.id
    limit 1) b
  join turno.inbox_queue q on q.id = b.queue_id;
end
$$;

comment on function turno.inbox_queues is 'In which queue each claim is; a claim that is over is in none.';
