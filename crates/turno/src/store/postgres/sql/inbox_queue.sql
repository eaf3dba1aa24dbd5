-- Purpose: queues by name, and what their arguments may be.
-- Index:   inbox_queue_name_key, inbox_cursor_pkey.

-- A queue is made by the first push to it. Whoever waits here waits once in the queue's life.
create or replace function turno.inbox_queue_made(name text) returns turno.inbox_queue
language plpgsql
as $$
#variable_conflict use_column
declare
  q turno.inbox_queue;
begin
  insert into turno.inbox_queue (name)
  values (inbox_queue_made.name)
  on conflict do nothing
  returning * into q;
  if not found then
    select * into strict q
    from turno.inbox_queue t
    where t.name = inbox_queue_made.name;
    return q;
  end if;
  insert into turno.inbox_total (queue_id)
  values (q.id);
  insert into turno.inbox_cursor (
    queue_id, n, at_id, floor_id, floor_n, late_at, late_cost, due_from, due_at, expiry)
  values (
    q.id, 0, '{0,0,0,0}', '{0,0,0,0}', 0, clock_timestamp(), '0', '-infinity', clock_timestamp(), 'infinity');
  return q;
end
$$;

create or replace function turno.inbox_queue_id(name text) returns integer
language sql
stable
as $$
  select q.id
  from turno.inbox_queue q
  where q.name = inbox_queue_id.name
$$;

-- Idle workers listen on turno_inbox for the names of queues.
create or replace function turno.inbox_call(queue_id integer) returns void
language plpgsql
as $$
declare
  queue text;
begin
  select q.name into queue
  from turno.inbox_queue q
  where q.id = inbox_call.queue_id
    and q.idle_until > clock_timestamp();
  if found then
    perform pg_notify('turno_inbox', queue);
  end if;
end
$$;

-- Says that somebody listens, and answers how long it may sleep if nobody calls: until the next item's time, or the
-- end of another's claim.
create or replace function turno.inbox_wait(queue text) returns interval
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q     integer;
  heard timestamptz;
  next  timestamptz;
begin
  select t.id, t.idle_until into q, heard
  from turno.inbox_queue t
  where t.name = inbox_wait.queue;
  if not found then
    -- There is nowhere to say so: whoever pushes first will not call.
    return '100 milliseconds';
  end if;
  -- Most of the time somebody has just said so, and there is nothing to write.
  update turno.inbox_queue t
  set idle_until = clock_timestamp() + '10 seconds'
  where t.id = q
    and (t.idle_until is null or t.idle_until < clock_timestamp() + '5 seconds');
  if heard is null or heard < clock_timestamp() then
    -- Whoever pushed before this has not called: look once more.
    return '0';
  end if;
  select least(
    (select c.expiry from turno.inbox_cursor c where c.queue_id = q order by c.n desc limit 1),
    (select min(d.run_at)
    from generate_series(0, 3) p
    cross join lateral (
      select t.run_at
      from turno.inbox_item t
      where t.lane = q * 4 + p
        and t.run_at is not null
      order by t.run_at
      limit 1) d))
  into next;
  -- More of them than one claim reads.
  if exists (select from turno.inbox_freed f where f.queue_id = q) then
    return '0';
  end if;
  return case when next < 'infinity' then greatest(next - clock_timestamp(), '0') end;
end
$$;

comment on function turno.inbox_wait is
  'Says that a worker listens to turno_inbox: for ten seconds, a push to the queue notifies it. Answers when to look again at the latest.';

create or replace function turno.check_lease(lease interval) returns void
language plpgsql
immutable
as $$
begin
  if lease is null or lease < '1 millisecond' or lease > '1 day' then
    raise exception 'lease is %, and must be between 1 ms and 1 day', coalesce(lease::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two extensions, such as 30 seconds.';
  end if;
end
$$;

-- What was answered to the same request before; null if it is new.
create or replace function turno.inbox_answered(request uuid) returns jsonb
language sql
stable
as $$
  select r.answer
  from turno.inbox_request r
  where r.request = inbox_answered.request
$$;

-- The same, of a request that must have been of the same kind: its answer has one of these words.
create or replace function turno.inbox_answered_with(request uuid, words text[]) returns jsonb
language plpgsql
stable
as $$
declare
  answer jsonb := turno.inbox_answered(inbox_answered_with.request);
begin
  if answer is not null and not answer ?| inbox_answered_with.words then
    raise exception 'request was used before, and for something else'
      using errcode = 'invalid_parameter_value', hint = 'Give each request an id of its own.';
  end if;
  return answer;
end
$$;

-- Keeps an answer. If the same request has been answered meanwhile (its connection was lost, and not the call), this one
-- is taken back, and asked again it gets that answer.
create or replace function turno.inbox_answer(request uuid, answer jsonb) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into turno.inbox_request (request, at, answer)
  select inbox_answer.request, clock_timestamp(), inbox_answer.answer
  where inbox_answer.request is not null
  on conflict do nothing;
  if not found and inbox_answer.request is not null then
    raise exception 'the request % is being answered already', inbox_answer.request
      using errcode = 'serialization_failure', hint = 'Ask again: the answer is the same.';
  end if;
end
$$;
