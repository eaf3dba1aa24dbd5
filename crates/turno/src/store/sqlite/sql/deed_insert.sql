-- Purpose: one line of the audit trail, of what a person did by hand.
insert into turno_deed (id, at, part, event, resource, count, actor, reason)
values (:id, :now, :part, :event, :resource, :count, :actor, :reason)
