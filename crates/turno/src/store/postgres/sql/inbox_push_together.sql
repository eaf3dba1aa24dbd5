-- Purpose: small pushes of several callers that arrived together: one round trip and one commit. Each caller's request is
--          remembered by itself, and answered by itself; place says whose, counted from one.
-- Index:   inbox_request_pkey, and those of inbox_push_batch.
--
-- Callers of one queue are neighbours, and queues are in order, so that two of these cannot wait for each other. Nobody
-- may have to wait for a stranger's open transaction, which may have pushed the same key: so this gives up soon. Whoever
-- is not answered asks alone.

create or replace function turno.inbox_push_together(
  queues       text[],
  sizes        integer[],
  requests     uuid[],
  payloads     text[],
  keys         text[]        default null,
  priorities   integer[]     default null,
  delays       interval[]    default null,
  run_ats      timestamptz[] default null,
  groups       text[]        default null,
  max_attempts integer[]     default null,
  max_payload  integer       default 1048576
) returns table (place bigint, ids bigint[], duplicates integer[])
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  many    integer := cardinality(inbox_push_together.queues);
  first   integer := 1; -- the first caller of a queue, and the last
  last    integer;
  a       integer := 1; -- the first item of a queue, and the last
  b       integer;
  before  integer;
  got     record;
  answers jsonb[] := '{}';
begin
  -- Sent again, because its answer was lost: that is found alone.
  if exists (
    select from turno.inbox_request r
    where r.request = any (inbox_push_together.requests)) then
    return;
  end if;
  while first <= many loop
    last := first;
    b := a - 1 + inbox_push_together.sizes[first];
    while last < many and inbox_push_together.queues[last + 1] = inbox_push_together.queues[first] loop
      last := last + 1;
      b := b + inbox_push_together.sizes[last];
    end loop;
    -- What none of a queue's items has is not told of them: a queue without groups stays one.
    select p.ids, p.duplicates into got
    from turno.inbox_push_batch(
      inbox_push_together.queues[first],
      inbox_push_together.payloads[a:b],
      case when array_remove(inbox_push_together.keys[a:b], null) <> '{}' then inbox_push_together.keys[a:b] end,
      inbox_push_together.priorities[a:b],
      case when array_remove(inbox_push_together.delays[a:b], null) <> '{}' then inbox_push_together.delays[a:b] end,
      case when array_remove(inbox_push_together.run_ats[a:b], null) <> '{}' then inbox_push_together.run_ats[a:b] end,
      case when array_remove(inbox_push_together.groups[a:b], null) <> '{}' then inbox_push_together.groups[a:b] end,
      inbox_push_together.max_attempts[a:b],
      null, inbox_push_together.max_payload) p;
    before := 0;
    for i in first..last loop
      place := i;
      ids := got.ids[before + 1:before + inbox_push_together.sizes[i]];
      duplicates := null;
      if got.duplicates is not null then
        select array_agg(d - before order by d) into duplicates
        from unnest(got.duplicates) d
        where d > before
          and d <= before + inbox_push_together.sizes[i];
      end if;
      answers := answers || turno.inbox_push_answer(ids, duplicates);
      before := before + inbox_push_together.sizes[i];
      return next;
    end loop;
    first := last + 1;
    a := b + 1;
  end loop;

  insert into turno.inbox_request (request, at, answer)
  select r.request, clock_timestamp(), r.answer
  from unnest(inbox_push_together.requests, answers) r(request, answer)
  on conflict do nothing;
  get diagnostics last = row_count;
  if last < many then
    raise exception 'one of the requests is being answered already'
      using errcode = 'serialization_failure', hint = 'Ask again: the answer is the same.';
  end if;
end
$$;

comment on function turno.inbox_push_together is
  'Stores the items of several callers, each with an answer of its own; whoever has none asks alone. Callers of one queue stand together, and queues are in order.';
