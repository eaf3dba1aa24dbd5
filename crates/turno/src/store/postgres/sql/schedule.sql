-- Purpose: each tick of a schedule is pushed once, whatever number of instances run it.
-- Index:   schedule_pkey.

-- A schedule that is new begins now: it has no past to catch up with.
create or replace function turno.schedule_state(name text, out now timestamptz, out last timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  select s.last into schedule_state.last
  from turno.schedule s
  where s.name = schedule_state.name;
  if not found then
    perform turno.check_name('schedule', schedule_state.name, 255);
    insert into turno.schedule as s (name, last)
    values (schedule_state.name, clock_timestamp())
    on conflict (name) do nothing;
    select s.last into schedule_state.last
    from turno.schedule s
    where s.name = schedule_state.name;
  end if;
  schedule_state.now := clock_timestamp();
end
$$;

comment on function turno.schedule_state is 'The clock, and the last tick of a schedule; a new one begins now.';

-- The row is the guard: whoever moves it on pushes, in the same transaction. Without a payload, the tick is passed over.
create or replace function turno.schedule_tick(
  name         text,
  tick         timestamptz,
  queue        text,
  payload      json,
  key          text        default null,
  priority     integer     default 1,
  delay        interval    default null,
  run_at       timestamptz default null,
  "group"      text        default null,
  max_attempts integer     default 5,
  max_payload  integer     default 1048576,
  out ours     boolean,
  out id       bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  update turno.schedule s
  set last = schedule_tick.tick
  where s.name = schedule_tick.name
    and s.last < schedule_tick.tick;
  schedule_tick.ours := found;
  if schedule_tick.ours and schedule_tick.payload is not null then
    select p.id into schedule_tick.id
    from turno.inbox_push(
      schedule_tick.queue, schedule_tick.payload, schedule_tick.key, schedule_tick.priority, schedule_tick.delay,
      schedule_tick.run_at, schedule_tick."group", schedule_tick.max_attempts, null, schedule_tick.max_payload) p;
  end if;
end
$$;

comment on function turno.schedule_tick is
  'Moves a schedule on to a tick and pushes its item, in one step; ours is false if another instance did so before.';
