-- Purpose: one page of a queue's items in one state, for people.
-- Index:   inbox_item_pkey, inbox_failed_queue, inbox_done_at.

create or replace function turno.inbox_list(queue text, state text, after bigint default null, "limit" integer default 100)
returns setof turno.inbox_view
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  q integer := turno.inbox_queue_id(inbox_list.queue);
begin
  if inbox_list.state = 'failed' then
    return query
    select
      f.id, 'failed', f.payload, f.key, f."group", f.lane % 4, f.attempts::integer, f.abandoned::integer, f.worker, f.pushed_at,
      f.failed_at, f.errors
    from turno.inbox_failed f
    where f.lane / 4 = q
      and f.id > coalesce(inbox_list.after, 0)
    order by f.id
    limit inbox_list."limit";
  elsif inbox_list.state = 'completed' then
    return query
    select
      i.id, 'completed', null::json, null::text, null::text, null::integer, 0, 0, d.worker, null::timestamptz, d.at, null::jsonb
    from turno.inbox_done d
    cross join lateral unnest(d.ids) r
    cross join lateral generate_series(lower(r), upper(r) - 1) i(id)
    where d.queue_id = q
      and (inbox_list.after is null or i.id < inbox_list.after)
    order by i.id desc
    limit inbox_list."limit";
  elsif inbox_list.state in ('pending', 'scheduled', 'processing') then
    return query
    select
      i.id, inbox_list.state, i.payload, i.key, i."group", i.lane % 4, i.attempts::integer, i.abandoned::integer, b.worker,
      i.pushed_at,
      case inbox_list.state when 'processing' then b.claimed_at else coalesce(nullif(i.run_at, 'infinity'), i.pushed_at) end, i.errors
    from turno.inbox_item i
    left join lateral (
      select t.worker, t.claimed_at
      from turno.inbox_batch t
      where t.queue_id = q
        and t.lane = i.lane
        and t.ids @> i.id
        and t.until > clock_timestamp()
      limit 1) b on true
    where i.lane between q * 4 and q * 4 + 3
      and i.id > coalesce(inbox_list.after, 0)
      and case
        when b.worker is not null then 'processing'
        when i.run_at > clock_timestamp() and i.run_at < 'infinity' then 'scheduled'
        else 'pending'
      end = inbox_list.state
    order by i.id
    limit inbox_list."limit";
  else
    raise exception 'state is %, and must be pending, scheduled, processing, completed or failed', coalesce(quote_literal(inbox_list.state), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name one of them.';
  end if;
end
$$;

comment on function turno.inbox_list is 'One page of the items of a queue that are in one state, in order of their ids; completed ones newest first.';
