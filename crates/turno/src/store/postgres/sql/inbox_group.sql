-- Purpose: the rules of groups: one item at a time, the first one first.
-- Index:   inbox_item_group, inbox_batch_queue.
--
-- Whenever an item of a group leaves a worker's hands, for whatever reason, a note says so (inbox_freed): the next of the
-- group, which claims have passed over, may be claimed. So a note may be thrown away while its group is busy: there will
-- be another.

-- The first item of each group, of those in the queue: the only one that may be claimed.
create or replace function turno.inbox_heads(queue_id integer, groups text[])
returns table (lane integer, id bigint, "group" text, run_at timestamptz)
language sql
stable
as $$
  select h.*
  from (
    select distinct g
    from unnest(inbox_heads.groups) g
    where g is not null) d
  cross join lateral (
    select i.lane, i.id, i."group", i.run_at
    from turno.inbox_item i
    where hashtextextended(i."group", i.lane / 4) = hashtextextended(d.g, inbox_heads.queue_id)
      and i."group" = d.g
      and i.lane / 4 = inbox_heads.queue_id
    order by i.id
    limit 1) h
$$;

-- The groups of which an item is in a worker's hands. To be asked of those that may have come first only afterwards: a
-- revived item, or one that was committed late.
create or replace function turno.inbox_busy(queue_id integer) returns setof text
language sql
stable
as $$
  select g
  from turno.inbox_batch b
  cross join lateral unnest(b.groups) g
  where b.queue_id = inbox_busy.queue_id
$$;

-- Says that items of groups have left a worker's hands, for each the queue and the group: writes it down, does not keep
-- the groups busy by these claims any more, and calls whoever has nothing to do.
create or replace function turno.inbox_free(tokens uuid[], queues integer[], groups text[]) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  insert into turno.inbox_freed (queue_id, groups)
  select u.queue_id, array_agg(u."group")
  from unnest(inbox_free.queues, inbox_free.groups) with ordinality u(queue_id, "group", place)
  group by u.queue_id, u.place / 100;
  update turno.inbox_batch b
  set groups = array(
    select g
    from unnest(b.groups) g
    -- Of this queue: a call may settle claims of several, and groups of one name in two queues are two groups.
    where g not in (
      select u."group"
      from unnest(inbox_free.queues, inbox_free.groups) u(queue_id, "group")
      where u.queue_id = b.queue_id))
  where b.token = any (inbox_free.tokens)
    and b.groups is not null;
  perform turno.inbox_call(q)
  from (select distinct unnest(inbox_free.queues)) u(q);
end
$$;

-- The next items of one lane, after a number; if they are to be in order, only the first of each group. Answers how far it
-- looked, too. The first items of some groups may be known already.
--
-- In growing pieces: where most items are behind others of their groups, each group is looked up once a piece, and not
-- once an item.
create or replace function turno.inbox_line(
  in_lane      integer,
  after        bigint,
  "limit"      integer,
  known_groups text[],
  known_heads  bigint[],
  in_order     boolean,
  out ids      bigint[],
  out groups   text[],
  out ending   bigint
)
language plpgsql
as $$
#variable_conflict use_column
declare
  piece       integer := inbox_line."limit";
  room        integer := inbox_line."limit";
  seen_ids    bigint[];
  seen_groups text[];
  furthest    bigint;
  unknown     text[];
  heads       bigint[];
  some_ids    bigint[];
  some_groups text[];
begin
  ending := inbox_line.after;
  loop
    -- The furthest in the same breath, or something could come between and be passed unseen.
    select
      array_agg(s.id), array_agg(s."group"),
      (select max(t.id) from turno.inbox_item t where t.lane = inbox_line.in_lane and t.id > ending)
    into seen_ids, seen_groups, furthest
    from (
      select t.id, t."group"
      from turno.inbox_item t
      where t.lane = inbox_line.in_lane
        and t.id > ending
        and t.run_at is null
      order by t.id
      limit piece) s;
    if not inbox_line.in_order or array_remove(seen_groups, null) = '{}' then
      some_ids := seen_ids[1:room];
      some_groups := seen_groups[1:room];
    else
      unknown := array(
        select g
        from unnest(seen_groups) g
        where g not in (select unnest(inbox_line.known_groups)));
      select array_agg(h.id) into heads
      from turno.inbox_heads(inbox_line.in_lane / 4, unknown) h;
      select array_agg(r.id), array_agg(r."group") into some_ids, some_groups
      from (
        select s.id, s."group"
        from unnest(seen_ids, seen_groups) s(id, "group")
        where s."group" is null
           or s.id in (select unnest(heads || inbox_line.known_heads))
        limit room) r;
    end if;
    ids := ids || some_ids;
    groups := groups || some_groups;
    room := room - coalesce(cardinality(some_ids), 0);
    if room = 0 then
      ending := some_ids[cardinality(some_ids)];
      return;
    end if;
    if coalesce(cardinality(seen_ids), 0) < piece then
      -- The end of the line: those that wait for a time are passed as well.
      ending := coalesce(furthest, ending);
      return;
    end if;
    ending := seen_ids[piece];
    piece := least(piece * 4, 10000);
  end loop;
end
$$;
