-- Calls for one item take fewer and simpler statements. These functions have other parameters now, or are not needed.
drop function if exists turno.inbox_is_there(integer, bigint);
drop function if exists turno.inbox_due_from(turno.inbox_cursor, timestamptz);
drop function if exists turno.inbox_needs_upkeep(turno.inbox_cursor, timestamptz, timestamptz);
drop function if exists turno.inbox_may_look(turno.inbox_cursor, timestamptz);
drop function if exists turno.inbox_claimed_ahead(integer, bigint[]);
