-- Purpose: the whole audit trail, newest first: how holdings ended, and what people did by hand.
-- Index:   those of lock_history; deed_resource, or deed_pkey when no resource is named.

create or replace function turno.history(
  resource text    default null,
  before   bigint  default null,
  "limit"  integer default 100,
  prefix   text    default '',
  part     text    default null
) returns setof turno.history_entry
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  page integer := least(greatest(history."limit", 1), 1000);
  last bigint  := coalesce(history.before, 9223372036854775807);
begin
  if history.part is not null and history.part not in ('lock', 'inbox', 'outbox', 'once', 'setting') then
    raise exception 'part is %, and must be lock, inbox, outbox, once or setting', quote_literal(history.part)
      using errcode = 'invalid_parameter_value', hint = 'Leave part out for all of them.';
  end if;
  return query
    with locks as (
      select
        h.id, h.at, 'lock'::text, h.event, h.resource::text, null::bigint, h.token, h.mode, h.owner, h."user", h.service,
        h.description, h.host, h.pid, h.acquired_at, h.expires_at, h.actor, h.reason
      from turno.lock_history(history.resource, last, page, history.prefix) h
      where history.part is null
         or history.part = 'lock'),
    named as (
      select d.*
      from turno.deed d
      where d.resource = history.resource
        and d.id < last
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    begun as (
      select d.*
      from turno.deed d
      where history.resource is null
        and d.id < last
        and starts_with(d.resource, history.prefix)
        and (history.part is null or d.part = history.part)
      order by d.id desc
      limit page),
    deeds as (
      select
        d.id, d.at, d.part, d.event, d.resource::text, d.count, null::bigint, null::text, null::text, null::text, null::text,
        null::text, null::text, null::integer, null::timestamptz, null::timestamptz, d.actor, d.reason
      from (select * from named union all select * from begun) d)
    select *
    from (select * from locks union all select * from deeds) e
    order by 1 desc
    limit page;
end
$$;

comment on function turno.history is
  'The audit trail, newest first: how holdings of locks ended, and what people did by hand to queues, events, once keys and settings, with who and why. Of one resource, of all that begin with a prefix, or of one part: lock, inbox, outbox, once, setting. The outbox has no name: its resource is empty. before is the last id of the page before.';
