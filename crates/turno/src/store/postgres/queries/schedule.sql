-- name: schedule_state
-- Calls turno.schedule_state. $1 name.
select now, last
from turno.schedule_state($1)

-- name: schedule_tick
-- Calls turno.schedule_tick. $1 name, $2 tick, $3 queue, $4 payload, $5 key, $6 priority, $7 delay, $8 run_at, $9 group,
-- $10 max_attempts. The library has checked the payload against its own limit.
select ours, id
from turno.schedule_tick($1, $2, $3, $4::json, $5, $6, $7, $8, $9, $10, 1073741823)
