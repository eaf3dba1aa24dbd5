-- Purpose: what people do by hand is written down, with who and why, in the transaction in which it is done. Not for callers.
-- Index:   none.

create or replace function turno.deed_check("user" text, reason text) returns void
language plpgsql
immutable
as $$
begin
  if "user" is not null then
    perform turno.check_name('user', "user", 255);
  end if;
  if reason is not null then
    perform turno.check_name('reason', reason, 1000);
  end if;
end
$$;

-- What changed nothing leaves nothing. The number is of those that locks have, so that one id orders them all.
create or replace function turno.deed_record(
  part     text,
  event    text,
  resource text,
  many     bigint,
  actor    text,
  reason   text
) returns void
language sql
as $$
  insert into turno.deed (id, at, part, event, resource, count, actor, reason)
  select
    nextval('turno.lock_history_id_seq'), clock_timestamp(), deed_record.part, deed_record.event,
    deed_record.resource, deed_record.many, deed_record.actor, deed_record.reason
  where deed_record.many > 0
$$;
