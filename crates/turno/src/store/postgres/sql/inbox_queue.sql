-- Queues of the inbox: their rows, counters and ranges of ids.

-- Purpose: queues by name, and what their arguments may be.
-- Index:   inbox_queue_name_key, inbox_cursor_pkey.

-- The first push to a queue creates it. A caller waits here once in the lifetime of a queue.
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

-- Copies what inbox_kind says of a queue into its row, where calls for one item read it. If another transaction has the row, or the
-- caller's snapshot may be too old to change it, it stays as it is: the copy may lack what is new, and never has too much. Answers
-- whether it lacked something.
create or replace function turno.inbox_queue_learn(queue_id integer) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  kind turno.inbox_kind;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return false;
  end if;
  select t.id, bit_or(d.priority_mask), bool_or(d.grouped), max(d.bytes) into kind
  from turno.inbox_queue t
  join turno.inbox_kind d on d.queue_id = t.id
  where t.id = inbox_queue_learn.queue_id
  group by t.id
  having (bit_or(d.priority_mask), bool_or(d.grouped), max(d.bytes)) <> (t.priority_mask, t.grouped, t.bytes);
  if not found then
    return false;
  end if;
  perform
  from turno.inbox_queue t
  where t.id = inbox_queue_learn.queue_id
  for update skip locked;
  if found then
    -- What another transaction has added to it meanwhile stays.
    update turno.inbox_queue t
    set priority_mask = t.priority_mask | kind.priority_mask,
        grouped = t.grouped or kind.grouped,
        bytes = greatest(t.bytes, kind.bytes)
    where t.id = inbox_queue_learn.queue_id;
  end if;
  return true;
end
$$;

-- The size of a queue's payloads, as inbox_kind has it: a power of two, so that few rows are added as payloads grow.
create or replace function turno.inbox_size_class(bytes integer) returns integer
language sql
immutable
as $$
  select case when bytes <= 1024 then 1024 else (2 ^ least(ceil(log(2, bytes)), 30))::integer end
$$;

-- Records what a push is about to store, if nothing like it was stored before: a row more, without waiting.
create or replace function turno.inbox_queue_store(q turno.inbox_queue, priority_mask integer, grouped boolean, bytes integer) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  is_known boolean;
begin
  if q.priority_mask & inbox_queue_store.priority_mask = inbox_queue_store.priority_mask
     and q.grouped >= inbox_queue_store.grouped
     and q.bytes >= inbox_queue_store.bytes then
    return;
  end if;
  select
    bit_or(k.priority_mask) & inbox_queue_store.priority_mask = inbox_queue_store.priority_mask
    and bool_or(k.grouped) >= inbox_queue_store.grouped
    and max(k.bytes) >= inbox_queue_store.bytes
  into is_known
  from turno.inbox_kind k
  where k.queue_id = q.id;
  if is_known is not true then
    insert into turno.inbox_kind (queue_id, priority_mask, grouped, bytes)
    values (q.id, inbox_queue_store.priority_mask, inbox_queue_store.grouped, turno.inbox_size_class(inbox_queue_store.bytes));
  end if;
  perform turno.inbox_queue_learn(q.id);
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

-- Whether a worker looks at short intervals (inbox_poll). A time that is far away is from before the clock was set back.
create or replace function turno.inbox_is_polled(polled_until timestamptz) returns boolean
language sql
volatile
as $$
  select polled_until is not null and polled_until between clock_timestamp() and clock_timestamp() + interval '5 seconds'
$$;

-- Whether a push has to notify: an idle worker listens, and none looks at short intervals.
create or replace function turno.inbox_is_listened(until timestamptz, polled_until timestamptz) returns boolean
language sql
volatile
as $$
  select until > clock_timestamp() and not turno.inbox_is_polled(polled_until)
$$;

-- Notifies the idle workers of a queue, if there are any: a commit with a notification waits for all others.
--
-- The transaction has its id before the mark is read. So a worker that has marked the queue knows when every transaction
-- that may have missed the mark has ended (inbox_idle). A transaction whose snapshot is older than its id cannot see a newer
-- mark, and notifies in any case.
create or replace function turno.inbox_notify(queue text) returns void
language plpgsql
as $$
begin
  perform pg_current_xact_id();
  if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
    perform
    from turno.inbox_listener l
    where l.queue = inbox_notify.queue
      and turno.inbox_is_listened(l.until, l.polled_until);
    if not found then
      return;
    end if;
  end if;
  perform turno.wake('turno_inbox', 'inbox:' || inbox_notify.queue);
end
$$;

-- The same for a queue by its number.
create or replace function turno.inbox_notify_by_id(queue_id integer) returns void
language plpgsql
as $$
declare
  queue text;
begin
  select q.name into queue
  from turno.inbox_queue q
  where q.id = inbox_notify_by_id.queue_id;
  if found then
    perform turno.inbox_notify(queue);
  end if;
end
$$;

-- When the next look behind the cursor may begin: looks take at most a tenth of the time. A look seems to take hours if the clock was
-- set forward meanwhile, or the machine slept; what was committed late must not wait ten times as long.
create or replace function turno.inbox_next_look(late_at timestamptz, late_cost interval) returns timestamptz
language sql
immutable
as $$
  select late_at + least(10 * late_cost, '20 seconds')
$$;

-- When to look again although no notification came: the next item's time, the end of another worker's claim, or what the
-- last claim left out. "looked" is how long ago the caller's last claim began: a claim that came too soon after another one
-- has not looked for items that were committed late (inbox_claim_late). Null: no time is known.
create or replace function turno.inbox_next_due(queue text, looked interval) returns interval
language plpgsql
as $$
#variable_conflict use_column
declare
  q    integer := turno.inbox_queue_id(inbox_next_due.queue);
  c    turno.inbox_cursor;
  next timestamptz;
  ahead bigint[];
begin
  if q is null then
    return null;
  end if;
  -- More of them than one claim reads.
  if exists (select from turno.inbox_freed f where f.queue_id = q) then
    return '0';
  end if;
  c := turno.inbox_last_cursor(q);
  ahead := array(
    select b.ahead_id
    from turno.inbox_claim b
    where b.queue_id = q
      and b.n = turno.inbox_ahead()
      and b.ahead_id > turno.inbox_first_at(c.at_id, (
        select bit_or(d.priority_mask)
        from turno.inbox_kind d
        where d.queue_id = q)));
  -- A claim that has reached its limit in bytes has left something in line.
  if exists (
    select from generate_series(0, 3) p
    cross join lateral (
      select from turno.inbox_item t
      where t.queue_priority = q * 4 + p
        and t.id > c.at_id[p + 1]
        and turno.inbox_is_ready(t.run_at)
        and t.id <> all (ahead)
      limit 1) i) then
    return '0';
  end if;
  select least(
    c.expiry, min(d.run_at), (
      select min(b.until)
      from turno.inbox_claim b
      where b.queue_id = q
        and b.n = turno.inbox_ahead())) into next
  from generate_series(0, 3) p
  cross join lateral (
    select t.run_at
    from turno.inbox_item t
    where t.queue_priority = q * 4 + p
      and t.run_at is not null
    order by t.run_at
    limit 1) d;
  if c.floor_id <> c.at_id and c.late_at > clock_timestamp() then
    -- The clock was set back since the last look.
    return '0';
  end if;
  if c.floor_id <> c.at_id and c.late_at < clock_timestamp() - inbox_next_due.looked then
    next := least(next, turno.inbox_next_look(c.late_at, c.late_cost));
  end if;
  return case when next < 'infinity' then greatest(next - clock_timestamp(), '0') end;
end
$$;

-- Says that a worker has nothing to do, and listens for as long as "listens"; 0 if it cannot listen. Answers when to look
-- again although no notification came (due), and since when every push notifies (sure; null if the setting notify is off).
--
-- A push that was under way when the queue was marked has perhaps not seen the mark. It has a transaction id below "since",
-- which is assigned after the mark was committed. When all of those have ended, "sure" is answered; a worker that looks once
-- more after that may sleep until it is notified. The same "sure" again means that the mark was there all the time.
create or replace function turno.inbox_idle(
  queue   text,
  listens interval default '5 seconds',
  looked  interval default '0',
  out due  interval,
  out sure text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  mark turno.inbox_listener;
begin
  perform turno.check_name('queue', inbox_idle.queue, 255);
  -- Without notifications a mark is of no use, and nothing is ever sure.
  if inbox_idle.listens > '0' and turno.notify_setting() then
    select * into mark
    from turno.inbox_listener l
    where l.queue = inbox_idle.queue;
    if turno.inbox_is_polled(mark.polled_until) then
      -- Pushes do not notify. If the worker that polls is gone, those of its last moments are found when its time is over.
      due := least(
        turno.inbox_next_due(inbox_idle.queue, inbox_idle.looked),
        mark.polled_until - clock_timestamp() + interval '10 milliseconds');
      return;
    elsif mark.polled_until is not null then
      perform turno.inbox_poll(inbox_idle.queue, '0');
      due := '0';
      return;
    end if;
    if mark.until > clock_timestamp() then
      if mark.since is null or mark.until < clock_timestamp() + inbox_idle.listens then
        update turno.inbox_listener l
        set until = greatest(l.until, clock_timestamp() + 2 * inbox_idle.listens),
            since = coalesce(l.since, pg_current_xact_id())
        where l.queue = inbox_idle.queue
          -- One that was made anew meanwhile has a beginning of its own.
          and l.until >= mark.until
          and l.polled_until is null
          and l.since is not distinct from mark.since;
        if not found then
          due := '0';
          return;
        end if;
      end if;
      if pg_snapshot_xmin(pg_current_snapshot()) >= mark.since then
        sure := mark.since::text;
      end if;
    else
      insert into turno.inbox_listener as l (queue, until)
      values (inbox_idle.queue, clock_timestamp() + 2 * inbox_idle.listens)
      on conflict (queue) do update
      set until = excluded.until,
          since = null
      where l.until <= clock_timestamp();
      due := '0';
      return;
    end if;
  end if;
  due := turno.inbox_next_due(inbox_idle.queue, inbox_idle.looked);
end
$$;

comment on function turno.inbox_idle is
  'Says that a worker listens to turno_inbox for as long as listens. Answers due: when to look again although no notification came; and sure: when it is not null and the same as in the last answer, a push to the queue is certain to notify.';

-- Says that a worker looks for items at short intervals until "lasts" from now: pushes do not notify meanwhile, because their
-- commits would wait for each other. With 0 it stops: then pushes notify again.
--
-- The idle workers are woken at the beginning. They look once when the time is over, so that a worker that vanishes delays
-- nothing for longer.
create or replace function turno.inbox_poll(queue text, lasts interval) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  mark turno.inbox_listener;
begin
  perform turno.check_name('queue', inbox_poll.queue, 255);
  if inbox_poll.lasts is null or inbox_poll.lasts not between '0' and '5 seconds' then
    raise exception 'lasts is %, and must be between 0 and 5 seconds', coalesce(inbox_poll.lasts::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Call it again before the time is over.';
  end if;
  select * into mark
  from turno.inbox_listener l
  where l.queue = inbox_poll.queue
  -- A transaction that marks the queue may stay open.
  for no key update skip locked;
  if inbox_poll.lasts = '0' then
    -- The mark begins anew (inbox_idle): pushes that are under way have perhaps not notified.
    update turno.inbox_listener l
    set polled_until = null,
        since = null
    where l.queue = mark.queue
      and l.polled_until is not null;
  elsif mark.until > clock_timestamp() then
    update turno.inbox_listener l
    set polled_until = clock_timestamp() + inbox_poll.lasts
    where l.queue = mark.queue;
    if not turno.inbox_is_polled(mark.polled_until) then
      perform turno.wake('turno_inbox', 'inbox:' || inbox_poll.queue);
    end if;
  end if;
end
$$;

comment on function turno.inbox_poll is
  'Says that a worker looks for items of a queue at short intervals, at least until lasts (at most 5 seconds) from now: pushes do not notify meanwhile. 0 ends that. Call it again before the time is over, as long as the worker looks.';

-- Asks who still listens: notifies all idle workers of a queue, and ends their marks soon. Those that still have nothing to
-- do mark the queue again; a worker that is gone does not, and so it costs no more notifications.
create or replace function turno.inbox_rouse(queue text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update turno.inbox_listener l
  set until = clock_timestamp() + '10 seconds'
  where l.queue = inbox_rouse.queue
    and l.until > clock_timestamp() + '20 seconds';
  if found then
    perform turno.wake('turno_inbox', 'inbox:' || inbox_rouse.queue);
  end if;
end
$$;

comment on function turno.inbox_rouse is
  'Wakes the idle workers of a queue that has more than its busy workers can take, and forgets those that are gone.';

-- As programs before version 9 of the schema ask, every few seconds.
create or replace function turno.inbox_wait(queue text) returns interval
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select least(i.due, case when i.sure is null then interval '100 milliseconds' end)
  from turno.inbox_idle(inbox_wait.queue, '5 seconds', '1 second') i
$$;

comment on function turno.inbox_wait is
  'Says that a worker listens to turno_inbox: for ten seconds, a push to the queue notifies it. Answers when to look again at the latest. Use inbox_idle.';

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

-- Purpose: numbers of items as ranges, which is how claims keep them: items are claimed in line, so a thousand of them
--          are one range most of the time.
-- Index:   none.

create or replace function turno.inbox_id_ranges(ids bigint[]) returns int8multirange
language plpgsql
immutable
as $$
declare
  first bigint;
  last  bigint;
begin
  if cardinality(ids) = 1 then
    return int8multirange(int8range(ids[1], ids[1], '[]'));
  end if;
  select min(i), max(i) into first, last
  from unnest(ids) i;
  -- Checked first: to put ranges together one by one costs more than all the rest of a claim.
  if last - first + 1 = cardinality(ids) then
    return int8multirange(int8range(first, last, '[]'));
  end if;
  return (
    select range_agg(int8range(i, i, '[]'))
    from unnest(ids) i);
end
$$;

-- Where the items of some ranges are. Looked up range by range (lateral, offset 0), whatever the planner thinks of a table
-- that it knows nothing about.
create or replace function turno.inbox_places(queue_priority integer, ids int8multirange) returns table (at tid)
language sql
stable
as $$
  select i.at
  from unnest(inbox_places.ids) r
  cross join lateral (
    select t.ctid as at
    from turno.inbox_item t
    where t.queue_priority = inbox_places.queue_priority
      and t.id >= lower(r)
      and t.id < upper(r)
    offset 0) i
$$;

create or replace function turno.inbox_count(ids int8multirange) returns bigint
language plpgsql
immutable
as $$
begin
  if ids = int8multirange(int8range(lower(ids), upper(ids))) then
    return upper(ids) - lower(ids);
  end if;
  return (
    select coalesce(sum(upper(r) - lower(r)), 0)
    from unnest(ids) r);
end
$$;
