-- name: adopt
-- Calls turno.adopt. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.adopt($1, $2, $3, $4, $5, $6, $7)

-- name: adopt_difference
-- Calls turno.adopt_difference. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts.
select turno.adopt_difference($1, $2, $3, $4, $5, $6) as difference

-- name: adopt_print
-- Calls turno.adopt_print. $1 table, $2 id, $3 user, $4 shape, $5 suffix, $6 max_attempts, $7 replace.
select turno.adopt_print($1, $2, $3, $4, $5, $6, $7) as script

-- name: adopted_calls
-- Calls turno.adopted_calls. $1 table.
select verb, call
from turno.adopted_calls($1, current_schemas(false))

-- name: unadopt
-- Calls turno.unadopt. $1 table.
select schema_name, table_name, id_column, user_column, shape, columns, indexes, functions, replaced
from turno.unadopt($1)

-- name: outbox_table_claim
-- Purpose: claim due rows of an outbox table, in the order of their creation. $1 relay $2 limit $3 lease $4 one row per key at a
-- time $5 token $6 candidates: only the oldest due rows are looked at, so that a long backlog of few keys costs no more; null for
-- all. A repeated call returns the rows of the first one. Index: <table>_turno_pending for the rows,
-- <table>_turno_keys for the earlier rows of a key.
-- The rule: not processed, attempts left, due, no claim or an expired one, and no earlier row of its key that must go first. The
-- rows that another relay is claiming are skipped; their keys are not, because those rows are still the earlier ones.
with candidate as materialized (
  select t.{id} as id
  from {table} t
  where not exists (
      select
      from {table} h
      where h.relay_token = $5
        and {open h})
    and {open t}
    and coalesce(t.{attempts}, 0) < {max_attempts}
    and (t.relay_until is null or t.relay_until <= clock_timestamp())
    and (t.relay_due_at is null or t.relay_due_at <= clock_timestamp())
  order by {place t}
  limit $6),
free as (
  select t.{id} as id
  from candidate c
  join {table} t on t.{id} = c.id
  -- Again, because PostgreSQL checks the conditions on the row itself when it locks the row.
  where {open t}
    and coalesce(t.{attempts}, 0) < {max_attempts}
    and (t.relay_until is null or t.relay_until <= clock_timestamp())
    and (t.relay_due_at is null or t.relay_due_at <= clock_timestamp())
    and not exists (
      select
      from {table} e
      where {key e} = {key t}
        and {open e}
        and ({place e}) < ({place t})
        and case when coalesce(e.{attempts}, 0) < {max_attempts} then $4 else e.relay_dead = 'block' end)
  order by {place t}
  limit $2
  for no key update of t skip locked),
claimed as (
  update {table} t
  set relay_token    = $5,
      relay_until    = clock_timestamp() + $3,
      relay_due_at   = null,
      relay_name     = $1,
      relay_at       = clock_timestamp(),
      -- The relay that had an expired claim may have published the row.
      relay_doubtful = least(t.relay_doubtful + case when t.relay_until is null then 0 else 1 end, 1000000)
  from free f
  where t.{id} = f.id
  returning t.*)
select
  t.{id}::text                               as row_id,
  t.{type}::text                             as type,
  {key t}::text                              as key,
  {correlation_id t}::text                   as correlation_id,
  t.{payload}::text                          as payload,
  coalesce({created t}, clock_timestamp())   as emitted_at,
  coalesce(t.{attempts}, 0)::integer         as refused,
  t.relay_doubtful                           as doubtful,
  exists (
    select
    from {table} d
    where {key d} = {key t}
      and {open d}
      and ({place d}) < ({place t})
      and coalesce(d.{attempts}, 0) >= {max_attempts}
      and d.relay_dead = 'park')             as parked
from (
  select c.*
  from claimed c
  union all
  -- Those of an earlier call with this token: the rows that this call has claimed do not have it yet in its snapshot.
  select h.*
  from {table} h
  where h.relay_token = $5
    and {open h}) t
order by {place t}

-- name: outbox_table_columns
-- Purpose: a table of the user's own and its columns, as the catalogue has them; no row if it does not exist. $1 table: its plain
-- name, or as SQL writes it. Index: none.
select
  n.nspname::text                 as schema_name,
  c.relname::text                 as table_name,
  c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname not in ('pg_catalog', 'information_schema', 'turno')
                                  as is_ordinary,
  a.attname::text                 as name,
  format_type(a.atttypid, null)   as type,
  case when a.atttypid = 'varchar'::regtype and a.atttypmod > 4 then a.atttypmod - 4 end
                                  as max_length,
  col_description(c.oid, a.attnum) as comment,
  a.attnotnull and exists (
    select
    from pg_index i
    where i.indrelid = c.oid
      and i.indkey[0] = a.attnum
      and i.indisunique
      and i.indisvalid
      and i.indnkeyatts = 1
      and i.indpred is null)      as is_unique
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.oid = case when to_regclass(quote_ident($1)) is null then to_regclass($1) else to_regclass(quote_ident($1)) end
order by a.attnum

-- name: outbox_table_discard
-- Purpose: mark rows as processed, so that they are never published. $1 ids in lower case $2 error $3 table $4 user $5 reason. A row
-- that a relay has claimed is left out: it may be published at this moment. Index: <table>_turno_pending.
with discarded as (
  update {table} t
  set {processed}  = {processed_now},
      {error}      = left($2, {error_length}),
      relay_token  = null,
      relay_until  = null,
      relay_due_at = null,
      relay_dead   = 'discarded',
      relay_at     = clock_timestamp()
  where {open t}
    and (t.relay_until is null or t.relay_until <= clock_timestamp())
    and lower(t.{id}::text) = any ($1)
  returning 1)
select
  count(*)                                                     as many,
  turno.outbox_table_record('discarded', $3, count(*), $4, $5) as recorded
from discarded

-- name: outbox_table_extend
-- Purpose: extend a claim. $1 token $2 lease. Index: <table>_turno_claims.
with extended as (
  update {table} t
  set relay_until = clock_timestamp() + $2
  where t.relay_token = $1
    and {open t}
  returning 1)
select count(*) as many
from extended

-- name: outbox_table_has_pending
-- Purpose: whether a row is pending or claimed. Index: <table>_turno_pending; the order makes the planner use it.
select exists (
  select
  from {table} t
  where {open t}
    and {state t} in ('pending', 'processing')
  order by {place t}
  limit 1) as has_pending

-- name: outbox_table_list
-- Purpose: one page of the rows in one state. $1 state $2 the place of the last row of the previous page, as JSON, or null $3 limit.
-- Index: <table>_turno_pending for rows that are not processed, none for the others.
select
  json_build_array({place t})::text           as place,
  t.{id}::text                                as row_id,
  t.{type}::text                              as type,
  {key t}::text                               as key,
  {correlation_id t}::text                    as correlation_id,
  t.{payload}::text                           as payload,
  {created t}                                 as emitted_at,
  coalesce(t.{attempts}, 0)::integer          as refused,
  t.relay_doubtful                            as doubtful,
  t.relay_name                                as by,
  case $1 when 'scheduled' then t.relay_due_at else t.relay_at end as at,
  t.relay_at                                  as settled_at,
  t.{error}::text                             as error
from {table} t
where {listed t}
  and {state t} = $1
  and ($2 is null or ({place t}) > ({after}))
order by {place t}
limit $3

-- name: outbox_table_recover
-- Purpose: end the claims of all relays: the next claim takes their rows over. Index: <table>_turno_claims.
with ended as (
  update {table} t
  set relay_until = clock_timestamp()
  where t.relay_token is not null
    and {open t}
    and t.relay_until > clock_timestamp()
  returning 1)
select count(*) as many
from ended

-- name: outbox_table_requeue
-- Purpose: make dead rows pending again, and those that are parked behind one. $1 ids in lower case, or null for all $2 limit
-- $3 table $4 user $5 reason. Index: <table>_turno_pending.
with chosen as (
  select
    t.{id}       as id,
    {key t}      as key,
    t.relay_dead as relay_dead
  from {table} t
  where {open t}
    and coalesce(t.{attempts}, 0) >= {max_attempts}
    and ($1::text[] is null or lower(t.{id}::text) = any ($1))
  order by {place t}
  limit $2),
requeued as (
  update {table} t
  set {attempts}   = 0,
      relay_dead   = null,
      relay_due_at = null
  where {open t}
    and coalesce(t.{attempts}, 0) >= {max_attempts}
    and (t.{id} in (select c.id from chosen c)
      or (t.relay_dead = 'park' and {key t} in (select c.key from chosen c where c.relay_dead = 'park')))
  returning 1)
select
  count(*)                                                    as many,
  turno.outbox_table_record('requeued', $3, count(*), $4, $5) as recorded
from requeued

-- name: outbox_table_settle
-- Purpose: store the outcome of each row of a claim; rows without an outcome are given back. $1 token $2 sent $3 refused $4 their
-- errors $5 pauses, null for a dead one $6 what dead ones do to their key $7 doubtful $8 deferred $9 their pauses.
-- Index: <table>_turno_claims.
-- A processed row keeps the token, by which a repeated call recognizes it.
with outcome as (
  select u.id::{id_type} as id, 'sent' as outcome, null::text as error, null::interval as pause, null::text as dead
  from unnest($2::text[]) u (id)
  union all
  select u.id::{id_type}, 'refused', u.error, u.pause, u.dead
  from unnest($3::text[], $4::text[], $5::interval[], $6::text[]) u (id, error, pause, dead)
  union all
  select u.id::{id_type}, 'deferred', null, u.pause, null
  from unnest($8::text[], $9::interval[]) u (id, pause)),
settled as (
  update {table} t
  set {processed}    = case when o.outcome = 'sent' then {processed_now} else t.{processed} end,
      {attempts}     = case
        when o.outcome = 'refused' and o.dead is not null then greatest(coalesce(t.{attempts}, 0) + 1, {max_attempts})
        when o.outcome = 'refused' then coalesce(t.{attempts}, 0) + 1
        else t.{attempts}
      end,
      {error}        = case when o.outcome = 'refused' then left(o.error, {error_length}) else t.{error} end,
      relay_token    = case when o.outcome = 'sent' then t.relay_token end,
      relay_until    = null,
      relay_due_at   = clock_timestamp() + o.pause,
      relay_doubtful = least(t.relay_doubtful + case when t.{id} = any ($7::text[]::{id_type}[]) then 1 else 0 end, 1000000),
      relay_dead     = o.dead,
      relay_at       = clock_timestamp()
  from {table} h
  left join outcome o on o.id = h.{id}
  where h.relay_token = $1
    and {open h}
    and t.{id} = h.{id}
    -- Of the row itself, because PostgreSQL checks these again if another relay has just taken the row over.
    and t.relay_token = $1
    and {open t}
  returning o.outcome)
select
  count(*) filter (where s.outcome = 'sent') + (
    select count(*)
    from outcome o
    join {table} t on t.{id} = o.id
    where o.outcome = 'sent'
      and t.relay_token = $1
      and not ({open t}))                                              as sent,
  count(*) filter (where s.outcome = 'refused')                        as refused,
  count(*) filter (where s.outcome is null or s.outcome = 'deferred')  as returned
from settled s

-- name: outbox_table_state
-- Purpose: the state of a row, inside other statements.
case
  when not ({open t}) then case when t.relay_dead = 'discarded' then 'discarded' else 'dispatched' end
  when coalesce(t.{attempts}, 0) >= {max_attempts} then case when t.relay_dead = 'block' then 'blocked' else 'dead' end
  when t.relay_until > clock_timestamp() then 'processing'
  when t.relay_due_at > clock_timestamp() then 'scheduled'
  else 'pending'
end

-- name: outbox_table_stats
-- Purpose: how many rows are in which state, of those that are not processed; the oldest ones, if there are very many.
-- Index: <table>_turno_pending.
select
  count(*)                                           as unprocessed,
  count(*) filter (where s.state = 'pending')        as pending,
  count(*) filter (where s.state = 'scheduled')      as scheduled,
  count(*) filter (where s.state = 'processing')     as processing,
  count(*) filter (where s.state = 'dead')           as dead,
  count(*) filter (where s.state = 'blocked')        as blocked,
  count(distinct s.key) filter (where s.state = 'dead' and s.relay_dead = 'park') as parked_keys,
  coalesce(sum(s.attempts), 0)::bigint               as attempts,
  case when count(*) filter (where s.state = 'pending') > 0 then
    make_interval(secs => greatest(date_part('epoch', clock_timestamp() - min(s.created) filter (where s.state = 'pending')), 0))
  end                                                as oldest_pending
from (
  select
    {state t}                           as state,
    {key t}::text                       as key,
    t.relay_dead                        as relay_dead,
    coalesce(t.{attempts}, 0)           as attempts,
    {created t}                         as created
  from {table} t
  where {open t}
  order by {place t}
  limit {max_counted_rows}) s
