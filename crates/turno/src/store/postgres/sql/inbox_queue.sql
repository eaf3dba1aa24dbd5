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

-- When the next item of a queue may be claimed, whatever the settings of the queue: its time, the end of another worker's claim, or
-- what the last claim left out. "looked" is how long ago the caller's last claim began: a claim that came too soon after another one
-- has not looked for items that were committed late (inbox_claim_late). Null: no time is known.
create or replace function turno.inbox_next_item(q integer, looked interval) returns interval
language plpgsql
as $$
#variable_conflict use_column
declare
  c    turno.inbox_cursor;
  next timestamptz;
  ahead bigint[];
begin
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
  if c.floor_id <> c.at_id and c.late_at < clock_timestamp() - inbox_next_item.looked then
    next := least(next, turno.inbox_next_look(c.late_at, c.late_cost));
  end if;
  return case when next < 'infinity' then greatest(next - clock_timestamp(), '0') end;
end
$$;

-- Purpose: settings of a queue. A setting that is not there limits nothing. They are changed under the queue's advisory lock, so a claim
--          that has its turn sees what holds.
-- Index:   inbox_queue_name_key, inbox_rate_pkey, inbox_claim_queue.

-- What operators may set, and its limits.
create or replace function turno.inbox_settings_check(change jsonb) returns void
language plpgsql
immutable
as $$
declare
  setting text;
  rate    jsonb := change->'rate';
begin
  if jsonb_typeof(change) is distinct from 'object' then
    raise exception 'change must be an object such as {"max_running": 3}'
      using errcode = 'invalid_parameter_value', hint = 'null removes a setting.';
  end if;
  select k into setting
  from jsonb_object_keys(change) k
  where k not in ('paused', 'max_running', 'rate')
  limit 1;
  if found then
    raise exception 'change has the unknown setting %', quote_literal(left(setting, 60))
      using errcode = 'invalid_parameter_value', hint = 'A queue has the settings paused, max_running and rate.';
  end if;
  if coalesce(jsonb_typeof(change->'paused'), 'null') not in ('boolean', 'null') then
    raise exception 'paused must be true or false'
      using errcode = 'invalid_parameter_value', hint = 'null is the same as false.';
  end if;
  perform turno.inbox_setting_check('max_running', change->'max_running');
  if coalesce(jsonb_typeof(rate), 'null') <> 'null' then
    if jsonb_typeof(rate) <> 'object'
       or jsonb_typeof(rate->'count') is distinct from 'number'
       or jsonb_typeof(rate->'per') is distinct from 'string'
       or exists (select from jsonb_object_keys(rate) k where k not in ('count', 'per', 'burst')) then
      raise exception 'rate must have count and per, and may have burst'
        using errcode = 'invalid_parameter_value', hint = 'Write {"count": 100, "per": "1 minute"}.';
    end if;
    perform turno.inbox_setting_check('rate', rate->'count');
    perform turno.inbox_setting_check('rate', rate->'burst');
    begin
      -- A bare number would be seconds.
      if rate->>'per' ~ '^[0-9. ]*$' or (rate->>'per')::interval not between '1 millisecond' and '1 day' then
        raise invalid_datetime_format;
      end if;
    exception when data_exception then
      raise exception 'rate must be per a time between 1 ms and 1 day'
        using errcode = 'invalid_parameter_value', hint = 'Write {"count": 100, "per": "1 minute"}.';
    end;
  end if;
end
$$;

-- A number of items. 3.0 is a number, but not one that can be read as an integer.
create or replace function turno.inbox_setting_check(name text, value jsonb) returns void
language plpgsql
immutable
as $$
begin
  if coalesce(jsonb_typeof(value), 'null') <> 'null'
     and (value::text !~ '^[1-9][0-9]{0,6}$' or value::text::integer > 1000000) then
    raise exception '% has %, and must be an integer between 1 and 1000000', name, left(value::text, 60)
      using errcode = 'invalid_parameter_value', hint = 'To let no item begin, pause the queue. null removes the limit.';
  end if;
end
$$;

create or replace function turno.inbox_settings(queue text) returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform turno.check_name('queue', inbox_settings.queue, 255);
  return coalesce(
    (select t.settings from turno.inbox_queue t where t.name = inbox_settings.queue),
    '{}');
end
$$;

comment on function turno.inbox_settings is 'The settings of a queue. One that is not there limits nothing.';

-- The idle workers are woken: with the new settings there may be something to do.
create or replace function turno.inbox_configure(
  queue  text,
  change jsonb,
  "user" text default null,
  reason text default null
) returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q    turno.inbox_queue;
  was  jsonb;
  now  jsonb;
  old  turno.inbox_cursor;
  c    turno.inbox_cursor;
begin
  perform turno.operator_action_check(inbox_configure."user", inbox_configure.reason);
  perform turno.check_name('queue', inbox_configure.queue, 255);
  if starts_with(inbox_configure.queue, '$') then
    raise exception 'queue is %, and names that begin with $ are Turno''s own', quote_literal(inbox_configure.queue)
      using errcode = 'invalid_parameter_value', hint = 'Choose another queue.';
  end if;
  perform turno.inbox_settings_check(inbox_configure.change);
  perform turno.inbox_queue_made(inbox_configure.queue);
  -- Before the turn: a transaction that has this row may take long, and no claim waits for it.
  select * into q
  from turno.inbox_queue t
  where t.name = inbox_configure.queue
  for no key update;
  -- Claims that have read the old settings have ended.
  perform turno.inbox_wait_turn(inbox_configure.queue, false, false);
  was := coalesce(q.settings, '{}');
  now := jsonb_strip_nulls(was || inbox_configure.change);
  if not coalesce((now->>'paused')::boolean, false) then
    now := now - 'paused';
  end if;
  if now ? 'rate' then
    -- In one form, whatever form it was given in.
    now := now || jsonb_build_object('rate', jsonb_build_object(
      'count', now->'rate'->'count',
      'per', ceil(extract(epoch from (now->'rate'->>'per')::interval) * 1000)::bigint || 'ms',
      'burst', coalesce(now->'rate'->'burst', '1')));
  end if;
  if now = was then
    return now;
  end if;
  update turno.inbox_queue t
  set settings = nullif(now, '{}')
  where t.id = q.id;
  if now->'rate' is distinct from was->'rate' then
    delete from turno.inbox_rate r
    where r.queue_id = q.id;
  end if;
  c := turno.inbox_last_cursor(q.id);
  old := c;
  c.has_settings := now <> '{}';
  perform turno.inbox_move_cursor(old, c);
  -- What was claimed before there was a limit counts, too. A transaction that has the row ends the claim or extends it, and may be
  -- waiting for the turn: inbox_next_due does not rely on its notification.
  update turno.inbox_claim b
  set limited = now ? 'max_running'
  where b.ctid = any (array(
    select t.ctid
    from turno.inbox_claim t
    where t.queue_id = q.id
      and t.limited <> now ? 'max_running'
    for no key update skip locked));
  perform turno.operator_action_record(
    'inbox', 'changed', inbox_configure.queue, 1, inbox_configure."user",
    left(concat_ws(': ', format('from %s to %s', was, now), inbox_configure.reason), 1000));
  perform turno.inbox_notify(inbox_configure.queue);
  return now;
end
$$;

comment on function turno.inbox_configure is
  'Changes settings of a queue, and answers all of them: paused (true: claims get nothing), max_running (so many items at a time) and rate ({"count": 100, "per": "1 minute", "burst": 1}). null removes a setting. The user and the reason go into the history.';

-- The time that each item takes of a rate, in microseconds: rounded up, so that there are never more than the rate allows.
create or replace function turno.inbox_rate_step(rate jsonb) returns bigint
language sql
immutable
as $$
  select ceil(extract(epoch from (rate->>'per')::interval) * 1000000 / (rate->>'count')::bigint)::bigint
$$;

-- When the time that was taken of a rate ends (GCRA). If the clock was set back, at most as far ahead as a whole burst.
create or replace function turno.inbox_rate_taken(queue_id integer, rate jsonb, at timestamptz) returns timestamptz
language plpgsql
as $$
#variable_conflict use_column
begin
  return greatest(inbox_rate_taken.at, least(
    coalesce(
      (select r.next_at from turno.inbox_rate r where r.queue_id = inbox_rate_taken.queue_id),
      inbox_rate_taken.at),
    inbox_rate_taken.at
      + turno.inbox_rate_step(rate) * (rate->>'burst')::bigint * interval '1 microsecond'));
end
$$;

-- How many items a rate lets begin now.
create or replace function turno.inbox_rate_room(queue_id integer, rate jsonb, at timestamptz) returns integer
language plpgsql
as $$
declare
  taken timestamptz := turno.inbox_rate_taken(queue_id, rate, at);
begin
  return greatest((rate->>'burst')::bigint
    - ceil(extract(epoch from taken - at) * 1000000 / turno.inbox_rate_step(rate)), 0)::integer;
end
$$;

create or replace function turno.inbox_rate_take(queue_id integer, rate jsonb, at timestamptz, many bigint) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  taken timestamptz := turno.inbox_rate_taken(inbox_rate_take.queue_id, rate, inbox_rate_take.at)
    + many * turno.inbox_rate_step(rate) * interval '1 microsecond';
begin
  insert into turno.inbox_rate as r (queue_id, next_at)
  values (inbox_rate_take.queue_id, taken)
  on conflict (queue_id) do update
  set next_at = excluded.next_at;
end
$$;

-- How many items of a queue are claimed.
create or replace function turno.inbox_running(queue_id integer) returns bigint
language plpgsql
as $$
#variable_conflict use_column
begin
  return (
    select coalesce(sum(turno.inbox_count(b.ids)), 0)
    from turno.inbox_claim b
    where b.queue_id = inbox_running.queue_id);
end
$$;

-- How many items the settings of a queue let begin now, at most "limit". The caller has the queue's advisory lock, and has taken over
-- the claims that have expired: those that are left can still be extended, so they count.
create or replace function turno.inbox_admitted(queue_id integer, settings jsonb, "limit" integer, at timestamptz) returns integer
language plpgsql
as $$
begin
  if settings ? 'paused' then
    return 0;
  end if;
  if settings ? 'max_running' then
    "limit" := least("limit", greatest((settings->>'max_running')::bigint - turno.inbox_running(queue_id), 0));
  end if;
  if settings ? 'rate' and "limit" > 0 then
    "limit" := least("limit", turno.inbox_rate_room(queue_id, settings->'rate', at));
  end if;
  return "limit";
end
$$;

-- When to look again although no notification came, with the settings of the queue: not before an item may begin. Null: no time is known.
create or replace function turno.inbox_next_due(queue text, looked interval) returns interval
language plpgsql
as $$
#variable_conflict use_column
declare
  q     record;
  due   interval;
  now_at timestamptz;
  ends  timestamptz;
  begins timestamptz;
begin
  select t.id, t.settings into q
  from turno.inbox_queue t
  where t.name = inbox_next_due.queue;
  if not found or q.settings ? 'paused' then
    return null;
  end if;
  due := turno.inbox_next_item(q.id, inbox_next_due.looked);
  if q.settings is null or due is null then
    return due;
  end if;
  now_at := clock_timestamp();
  if turno.inbox_running(q.id) >= (q.settings->>'max_running')::bigint then
    -- Completions notify, if the limit was there before the claim. A claim that has expired may be locked by its worker.
    select case when bool_and(b.limited) then min(b.until) else least(min(b.until), now_at + '1 second') end into ends
    from turno.inbox_claim b
    where b.queue_id = q.id;
    due := greatest(due, ends - now_at, '100 milliseconds');
  end if;
  if turno.inbox_rate_room(q.id, q.settings->'rate', now_at) = 0 then
    begins := turno.inbox_rate_taken(q.id, q.settings->'rate', now_at)
      - ((q.settings->'rate'->>'burst')::bigint - 1) * turno.inbox_rate_step(q.settings->'rate') * interval '1 microsecond';
    due := greatest(due, begins - now_at);
  end if;
  return due;
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
