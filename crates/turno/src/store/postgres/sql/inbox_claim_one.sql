-- Purpose: claims one item, side by side with others that claim one.
-- Index:   inbox_item_pkey from the cursor on, inbox_item_due, inbox_claim_queue.
--
-- A claim of many moves the cursor of its queue, so it has the queue's advisory lock alone, until its transaction has ended.
-- Claims of one share that lock and leave the cursor where it is: they claim in front of it, and their row in inbox_claim says
-- which item (ahead_id). What two of them must not do at once, they do under locks of their own, which they do not wait for:
--
-- - An item is claimed under an advisory lock of the item. The next item does as well, if another has that lock.
-- - The cursor is moved by one of them now and then (inbox_upkeep), under a lock of the queue.
--
-- So no claim of one waits for the commit of another, and their commits reach the disk together.

-- The number (n) of a claim in front of the cursor: no cursor has a higher one.
create or replace function turno.inbox_ahead() returns bigint
language sql
immutable
as $$
  select 9223372036854775807
$$;

-- The priorities of a queue, as items have them.
create or replace function turno.inbox_priorities(queue_id integer) returns integer[]
language sql
immutable
as $$
  select array[queue_id * 4, queue_id * 4 + 1, queue_id * 4 + 2, queue_id * 4 + 3]
$$;

-- The first number behind which a queue with these priorities has items in line. Where it never had any, the cursor stays at 0.
create or replace function turno.inbox_first_at(at_id bigint[], priority_mask integer) returns bigint
language sql
immutable
as $$
  select least(
    case when priority_mask & 1 <> 0 then at_id[1] end, case when priority_mask & 2 <> 0 then at_id[2] end,
    case when priority_mask & 4 <> 0 then at_id[3] end, case when priority_mask & 8 <> 0 then at_id[4] end)
$$;

-- The cursor's expiry, or the end of a claim behind the cursor that ends before it: a claim of one item that was due does not wait for
-- the transaction that moves the cursor, which then does not know of it. Looked for only if the expiry is later than "until", the end of
-- the caller's claim; otherwise expired claims are looked for before that in any case.
create or replace function turno.inbox_first_end(c turno.inbox_cursor, until timestamptz) returns timestamptz
language plpgsql
stable
as $$
#variable_conflict use_column
begin
  if c.expiry > inbox_first_end.until then
    return least(c.expiry, (
      select min(b.until)
      from turno.inbox_claim b
      where b.queue_id = c.queue_id
        and b.n < turno.inbox_ahead()));
  end if;
  return c.expiry;
end
$$;

-- Whether this transaction alone may claim an item. Not the lock of its row: a transaction that finds the item claimed after all
-- would keep the claim's holder waiting.
create or replace function turno.inbox_may_claim(id bigint) returns boolean
language sql
volatile
as $$
  select pg_try_advisory_xact_lock(1953853039, (id & 2147483647)::integer)
$$;

-- Gives items that were committed late a due time, which has come: so every claim finds them. Answers whether none is left.
create or replace function turno.inbox_late_due(c turno.inbox_cursor) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  item  record;
  whole boolean := true;
  many  integer := 0;
begin
  for item in
    select l.queue_priority, l.id, l."group"
    from turno.inbox_behind(c) l
    order by l.queue_priority, l.id
    limit 1000
  loop
    many := many + 1;
    -- Groups are left to claims that have the queue for themselves.
    if item."group" is null and turno.inbox_may_claim(item.id) then
      -- A new statement: another claim may have had the item before the lock was free.
      with due as (
        update turno.inbox_item t
        set run_at = clock_timestamp()
        where t.queue_priority = item.queue_priority
          and t.id = item.id
          and turno.inbox_is_ready(t.run_at)
          and not exists (
            select from turno.inbox_claim b
            where b.queue_id = c.queue_id
              and b.n = turno.inbox_ahead()
              and b.ahead_id = item.id)
          and not exists (
            select from turno.inbox_claim b
            where b.queue_id = c.queue_id
              and b.n > c.floor_n
              and b.n < turno.inbox_ahead()
              and b.ids @> item.id)
        returning 1)
      insert into turno.inbox_tally (queue_id, timed)
      select c.queue_id, 1
      from due;
    else
      whole := false;
    end if;
  end loop;
  return whole and many < 1000;
end
$$;

-- What a claim of many does on its way, for queues from which only one item at a time is claimed: takes over expired claims, finds
-- what was committed late (if "look"), and moves the cursor past what is claimed. If another transaction does so at the moment, this
-- one goes on. "until" is the end of the caller's claim.
create or replace function turno.inbox_upkeep(queue_id integer, priority_mask integer, look boolean, until timestamptz) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  c      turno.inbox_cursor;
  old    turno.inbox_cursor;
  own    xid8;
  oldest xid8;
  now_at timestamptz := clock_timestamp();
  due_from timestamptz;
begin
  if not pg_try_advisory_xact_lock(1953853037, inbox_upkeep.queue_id) then
    return;
  end if;
  perform turno.inbox_queue_learn(inbox_upkeep.queue_id);
  c := turno.inbox_last_cursor(inbox_upkeep.queue_id);
  old := c;
  if inbox_upkeep.look and c.floor_id <> c.at_id then
    -- After the cursor was read: see inbox_claim_late.
    if pg_current_xact_id_if_assigned() is null then
      own := pg_current_xact_id();
    end if;
    -- Before the look: what ends during it was perhaps not seen.
    oldest := pg_snapshot_xmin(pg_current_snapshot());
    if turno.inbox_late_due(c) then
      c := turno.inbox_raise_floor(c, own, oldest);
    end if;
    c.late_at := clock_timestamp();
    c.late_cost := c.late_at - now_at;
  end if;
  if turno.inbox_claim_has_expired(c.expiry, now_at) then
    c.expiry := turno.inbox_abandon(c.queue_id);
  else
    c.expiry := turno.inbox_first_end(c, inbox_upkeep.until);
  end if;
  c.expiry := least(c.expiry, inbox_upkeep.until);
  for p in 0..3 loop
    continue when inbox_upkeep.priority_mask & (1 << p) = 0;
    -- The ends of claims behind the cursor are in its expiry.
    select least(c.expiry, min(b.until)) into c.expiry
    from turno.inbox_claim b
    where b.queue_id = c.queue_id
      and b.n = turno.inbox_ahead()
      and b.ahead_id > c.at_id[p + 1];
    -- What is claimed and not committed is not seen as claimed: the cursor stays before it.
    c.at_id[p + 1] := greatest(c.at_id[p + 1], coalesce(
      (select t.id - 1
      from turno.inbox_item t
      where t.queue_priority = c.queue_id * 4 + p
        and t.id > c.at_id[p + 1]
        and turno.inbox_is_ready(t.run_at)
        -- Not as "not exists", which could compare every item with every claim.
        and (
          select b.ahead_id
          from turno.inbox_claim b
          where b.queue_id = c.queue_id
            and b.n = turno.inbox_ahead()
            and b.ahead_id = t.id) is null
      order by t.id
      limit 1),
      (select t.id
      from turno.inbox_item t
      where t.queue_priority = c.queue_id * 4 + p
      order by t.id desc
      limit 1)));
  end loop;
  due_from := turno.inbox_due_from(c.due_from, c.due_at, now_at);
  if not exists (
    select from turno.inbox_item t
    where t.queue_priority = any (turno.inbox_priorities(c.queue_id))
      and t.run_at >= due_from
      and turno.inbox_is_due(t.run_at, now_at)) then
    c.due_from := now_at - interval '1 second';
    c.due_at := case when due_from = '-infinity' then now_at else c.due_at end;
  end if;
  perform turno.inbox_move_cursor(old, c);
end
$$;

-- Claims the first item of a priority whose due time has come, of those that no other transaction is changing.
create or replace function turno.inbox_claim_due(
  queue_priority integer,
  n              bigint,
  due_from       timestamptz,
  token          uuid,
  worker         text,
  until          timestamptz
) returns turno.inbox_taken
language plpgsql
as $$
#variable_conflict use_column
declare
  -- Not in the statement, which would then read what is due later, too.
  now_at timestamptz := clock_timestamp();
  got    turno.inbox_taken;
begin
  with first as materialized (
    select t.ctid as place
    from turno.inbox_item t
    where t.queue_priority = inbox_claim_due.queue_priority
      and t.run_at >= inbox_claim_due.due_from
      and turno.inbox_is_due(t.run_at, now_at)
      and t."group" is null
    order by t.run_at, t.id
    limit 1
    for update skip locked),
  taken as (
    update turno.inbox_item t
    set run_at = 'infinity'
    from first f
    where t.ctid = f.place
    returning t.*),
  counted as (
    insert into turno.inbox_tally (queue_id, timed)
    select t.queue_priority / 4, -1
    from taken t),
  claimed as (
    insert into turno.inbox_claim (token, queue_priority, queue_id, n, ids, worker, claimed_at, until)
    select
      inbox_claim_due.token, t.queue_priority, t.queue_priority / 4, inbox_claim_due.n, int8multirange(int8range(t.id, t.id, '[]')),
      inbox_claim_due.worker, clock_timestamp(), inbox_claim_due.until
    from taken t)
  select
    t.id, t.attempts + 1, t.max_attempts, t.payload, t.key, t."group", t.queue_priority % 4, t.pushed_at,
    inbox_claim_due.until, t.abandoned
  into got
  from taken t;
  return got;
end
$$;

create or replace function turno.inbox_claim_check(queue text, worker text, lease interval) returns void
language plpgsql
immutable
as $$
begin
  perform turno.check_name('queue', queue, 255);
  perform turno.check_name('worker', worker, 255);
  perform turno.check_lease(lease);
end
$$;

-- The advisory lock of a queue ("turn" in ASCII is its class). By its name, so that it is taken before the first statement.
create or replace function turno.inbox_turn(queue text) returns integer
language sql
immutable
as $$
  select hashtext(queue)
$$;

-- Whether a claim with this end has to call inbox_upkeep first: a claim has expired or would end before the cursor's expiry, or a
-- look behind the cursor is due, once a second. late_at is in the future if the clock was set back.
create or replace function turno.inbox_needs_upkeep(
  expiry    timestamptz,
  is_behind boolean,
  late_at   timestamptz,
  at        timestamptz,
  until     timestamptz
) returns boolean
language sql
stable
as $$
  select expiry > until
    or turno.inbox_claim_has_expired(expiry, at)
    or is_behind and not at between late_at and late_at + '1 second'
$$;

-- Whether a claim that finds nothing may look behind the cursor: for at most a tenth of the time.
create or replace function turno.inbox_may_look(
  is_behind boolean,
  late_at   timestamptz,
  late_cost interval,
  at        timestamptz
) returns boolean
language sql
stable
as $$
  select is_behind
    and not at between late_at and turno.inbox_next_look(late_at, late_cost)
$$;

-- Waits until the caller may claim from a queue: alone, or with others that claim one item. With "later", a claim that would have to
-- wait long for another transaction answers false.
create or replace function turno.inbox_wait_turn(queue text, shared boolean, later boolean) returns boolean
language plpgsql
as $$
declare
  lock_timeout text;
begin
  if later then
    if shared and pg_try_advisory_xact_lock_shared(1953853038, turno.inbox_turn(queue))
       or not shared and pg_try_advisory_xact_lock(1953853038, turno.inbox_turn(queue)) then
      return true;
    end if;
    lock_timeout := current_setting('lock_timeout');
    begin
      -- Claims are short: longer than this waits only who meets a transaction that does other things after its claim.
      perform set_config('lock_timeout', '100ms', true);
      perform turno.inbox_wait_turn(queue, shared, false);
      perform set_config('lock_timeout', lock_timeout, true);
      return true;
    exception when lock_not_available then
      return false;
    end;
  end if;
  if shared then
    perform pg_advisory_xact_lock_shared(1953853038, turno.inbox_turn(queue));
  else
    perform pg_advisory_xact_lock(1953853038, turno.inbox_turn(queue));
  end if;
  return true;
end
$$;

-- Claims one item, if those of this queue can be claimed side by side. The caller has checked the arguments. Answers no id if there
-- is nothing to claim; 0 if the claim has to be made alone; and -1 if it would have to wait long (with "later"). "known" says that a
-- call with this token may have been made before.
--
-- Priority after priority, first what is due and then the line. In simple statements of this one function: joins, subqueries and calls
-- cost more than the reads and writes in them.
create or replace function turno.inbox_claim_one(
  queue  text,
  worker text,
  lease  interval,
  token  uuid,
  known  boolean,
  later  boolean
) returns turno.inbox_taken
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at   timestamptz := clock_timestamp();
  until    timestamptz := now_at + inbox_claim_one.lease;
  q        integer;  -- the queue
  mask     integer;  -- its priorities
  c        turno.inbox_cursor;
  behind   boolean;  -- there may be items behind the cursor, and this claim has not looked for them
  passed   boolean := false;  -- there are items in front of the cursor that cannot be claimed
  due_from timestamptz;
  to_id    bigint;
  place    tid;
  got      turno.inbox_taken;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    got.id := 0;
    return got;
  end if;
  -- Before the lock is shared: two claims that share it, and then want it alone, would wait for each other.
  select t.id, t.priority_mask into q, mask
  from turno.inbox_queue t
  where t.name = inbox_claim_one.queue
    and not t.grouped
    and t.settings is null;
  if not found then
    got.id := 0;
    return got;
  end if;
  if not pg_try_advisory_xact_lock_shared(1953853038, turno.inbox_turn(inbox_claim_one.queue))
     and not turno.inbox_wait_turn(inbox_claim_one.queue, true, inbox_claim_one.later) then
    got.id := -1;
    return got;
  end if;
  if inbox_claim_one.known then
    -- The same call may be under way still, if only its connection was lost.
    perform pg_advisory_xact_lock(1953853036, hashtext(inbox_claim_one.token::text));
    select * into got
    from turno.inbox_held(inbox_claim_one.token);
    if found then
      return got;
    end if;
  end if;

  select k.* into c
  from turno.inbox_cursor k
  where k.queue_id = q
  order by k.n desc
  limit 1;
  if c.has_settings then
    -- Since we looked. Idle workers are notified of that.
    return got;
  end if;
  behind := c.floor_id <> c.at_id;
  if turno.inbox_needs_upkeep(c.expiry, behind, c.late_at, now_at, until) then
    -- The queue's row cannot learn while a transaction has it that is the first to push of another kind.
    if turno.inbox_queue_learn(q) then
      got.id := 0;
      return got;
    end if;
    perform turno.inbox_upkeep(q, mask, turno.inbox_may_look(behind, c.late_at, c.late_cost, now_at), until);
    behind := false;
    -- What was taken over is due since.
    now_at := clock_timestamp();
  end if;
  due_from := turno.inbox_due_from(c.due_from, c.due_at, now_at);
  loop
    for p in 0..3 loop
      continue when mask & (1 << p) = 0;
      perform
      from turno.inbox_item m
      where m.queue_priority = q * 4 + p
        and m.run_at >= due_from
        and turno.inbox_is_due(m.run_at, now_at)
      limit 1;
      if found then
        got := turno.inbox_claim_due(q * 4 + p, c.n + 1, due_from, inbox_claim_one.token, inbox_claim_one.worker, until);
        if got.id is not null then
          return got;
        end if;
      end if;
      -- The line. A scan without an end reads a whole page of the index, also if it wants one item.
      to_id := c.at_id[p + 1] + 100;
      loop
        select
          m.id, m.attempts + 1, m.max_attempts, m.payload, m.key, p, m.pushed_at, m.abandoned, m.ctid
        into got.id, got.attempt, got.max_attempts, got.payload, got.key, got.priority, got.pushed_at, got.abandoned, place
        from turno.inbox_item m
        where m.queue_priority = q * 4 + p
          and m.id > c.at_id[p + 1]
          and m.id <= to_id
          and turno.inbox_is_ready(m.run_at)
          -- In the rare case that the queue has its first groups since we looked.
          and m."group" is null
          -- Only what is not claimed is locked. Not as "not exists", which could compare every item with every claim.
          and case
            when (
              select b.ahead_id
              from turno.inbox_claim b
              where b.queue_id = q
                and b.n = turno.inbox_ahead()
                and b.ahead_id = m.id) is null
            then turno.inbox_may_claim(m.id)
          end
        order by m.id
        limit 1;
        if not found and to_id < turno.inbox_ahead() then
          to_id := turno.inbox_ahead();
          continue;
        elsif not found then
          perform
          from turno.inbox_item m
          where m.queue_priority = q * 4 + p
            and m.id > c.at_id[p + 1]
          limit 1;
          passed := passed or found;
          exit;
        end if;
        -- A new statement, which sees what other claims did before the lock was ours: it may be claimed since, or even done.
        insert into turno.inbox_claim (token, queue_priority, queue_id, n, ahead_id, ids, worker, claimed_at, until)
        select
          inbox_claim_one.token, m.queue_priority, q, turno.inbox_ahead(), m.id, int8multirange(int8range(m.id, m.id, '[]')),
          inbox_claim_one.worker, clock_timestamp(), until
        from turno.inbox_item m
        where m.ctid = place
          and m.id = got.id
          and turno.inbox_is_ready(m.run_at)
          -- Not by "on conflict", which waits for a transaction that completes the item.
          and (
            select b.ahead_id
            from turno.inbox_claim b
            where b.queue_id = q
              and b.n = turno.inbox_ahead()
              and b.ahead_id = m.id) is null;
        if found then
          -- The more items a claim had to pass, the sooner the cursor is moved.
          if random() < least((got.id - c.at_id[p + 1]) * 0.001, 0.06) then
            perform turno.inbox_upkeep(q, mask, false, until);
          end if;
          got.expires_at := until;
          return got;
        end if;
      end loop;
    end loop;
    -- There may be what was committed late. What was passed, such as items that are due later, is not read again and again.
    behind := turno.inbox_may_look(behind, c.late_at, c.late_cost, now_at);
    if behind or passed then
      perform turno.inbox_upkeep(q, mask, behind, until);
    end if;
    exit when not behind;
    behind := false;
    passed := false;
    now_at := clock_timestamp();
  end loop;
  -- What stands in line behind a sequence that has gone back, or is of a kind that the queue's row does not say yet, is found by a
  -- claim that has the queue for itself.
  if (select i.last_value from turno.inbox_item_id i) < greatest(c.at_id[1], c.at_id[2], c.at_id[3], c.at_id[4])
     or turno.inbox_queue_learn(q) then
    got.id := 0;
  end if;
  return got;
end
$$;
