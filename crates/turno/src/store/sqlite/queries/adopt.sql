-- name: adopt_acquire
-- Purpose: lock one row of an adopted table, if it is free. :id :now :cutoff. Index: the id's own.
-- The rule: not processed, and not locked, or locked since before the cutoff.
update {table}
set processing_started_at = :now,
    processing_attempts   = coalesce(processing_attempts, 0) + 1,
    processing_token      = max(coalesce(processing_token, 0) + 1, :now)
where {id} = :id
  and processed_at is null
  and (processing_started_at is null or processing_started_at <= :cutoff)
returning processing_token

-- name: adopt_cleanup
-- Purpose: unlock what has been locked for too long, as failed. :cutoff :error. Index: <table>_turno_processing.
update {table}
set processing_started_at = null,
    error_message         = :error
where processing_started_at is not null
  and processing_started_at <= :cutoff
  and processed_at is null

-- name: adopt_columns
-- Purpose: the columns of a table. ?1 table. Index: none.
select name, upper(type)
from pragma_table_info(?1)
order by cid

-- name: adopt_fail
-- Purpose: processing a row of an adopted table failed; only for its newest lock. :id :token :error.
-- Index: the id's own.
update {table}
set error_message         = :error,
    processing_started_at = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null

-- name: adopt_failed
-- Purpose: whether this lock was released with this error: its release may be sent twice. :id :token :error.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processing_started_at is null
    and processed_at is null
    and error_message = :error)

-- name: adopt_mark
-- Purpose: mark a row, if it is not marked. :id :at. Index: the id's own.
update {table}
set processed    = 1,
    processed_at = :at
where {id} = :id
  and processed is not true

-- name: adopt_next
-- Purpose: lock free rows of an adopted table, those tried least often first. :user :limit :now :cutoff :max_attempts.
-- Index: <table>_turno_waiting. The rule is that of adopt_acquire, for rows with attempts left.
update {table}
set processing_started_at = :now,
    processing_attempts   = coalesce(processing_attempts, 0) + 1,
    processing_token      = max(coalesce(processing_token, 0) + 1, :now)
where {id} in (
  select {id}
  from {table}
  where processed_at is null
    and (processing_started_at is null or processing_started_at <= :cutoff)
    and coalesce(processing_attempts, 0) < :max_attempts
    and (:user is null or {user} = :user)
    and {id} is not null
  order by processing_attempts, {id}
  limit :limit)
returning cast({id} as text), processing_token, processing_attempts

-- name: adopt_release
-- Purpose: a row of an adopted table is processed; only for its newest lock. :id :token :at. Index: the id's own.
update {table}
set processed_at          = :at,
    processing_started_at = null,
    error_message         = null
where {id} = :id
  and processing_token = :token
  and processing_started_at is not null
  and processed_at is null

-- name: adopt_released
-- Purpose: whether this lock was released as processed: its release may be sent twice. :id :token.
-- Index: the id's own.
select exists (
  select 1
  from {table}
  where {id} = :id
    and processing_token = :token
    and processed_at is not null)

-- name: adopt_reset_all
-- Purpose: make everything that is not processed as new. Index: <table>_turno_waiting.
update {table}
set processing_started_at = null,
    processing_attempts   = 0,
    error_message         = null
where processed_at is null
  and (processing_started_at is not null or error_message is not null or processing_attempts > 0)

-- name: adopt_reset_stuck
-- Purpose: unlock what has been locked for too long. :cutoff. Index: <table>_turno_processing.
update {table}
set processing_started_at = null
where processing_started_at is not null
  and processing_started_at <= :cutoff
  and processed_at is null

-- name: adopt_stats
-- Purpose: how many rows are in which state. :user. Index: none; it looks at every row.
select
  count(*),
  count(*) filter (where processed_at is null and processing_started_at is null and error_message is null),
  count(*) filter (where processed_at is null and processing_started_at is not null),
  count(*) filter (where processed_at is not null),
  count(*) filter (where processed_at is null and processing_started_at is null and error_message is not null)
from {table}
where :user is null
  or {user} = :user

-- name: adopt_stats_marked
-- Purpose: how many rows are marked. :user. Index: none; it looks at every row.
select
  count(*),
  count(*) filter (where processed is not true),
  0,
  count(*) filter (where processed is true),
  0
from {table}
where :user is null
  or {user} = :user

-- name: adopt_table
-- Purpose: a table of the user's own, as it was made. ?1 name. Index: none; the schema is small.
select name, sql
from sqlite_schema
where type = 'table'
  and name = ?1 collate nocase
  and name not like 'sqlite\_%' escape '\'
  and name not like 'turno\_%' escape '\'
  and sql not like 'create virtual %'

-- name: adopt_unique
-- Purpose: whether a column alone tells one row from another. ?1 table ?2 column. Index: none.
select
  (select group_concat(name) = ?2
  from pragma_table_info(?1)
  where pk > 0)
  or exists (
    select 1
    from pragma_index_list(?1) l
    where l."unique"
      and not l.partial
      and (select group_concat(name) from pragma_index_info(l.name)) = ?2)

-- name: adopt_unmark
-- Purpose: take a mark back. :id. Index: the id's own.
update {table}
set processed    = 0,
    processed_at = null
where {id} = :id
  and processed is true

-- name: adopted_delete
-- Purpose: forget an adopted table. ?1 table. Index: the primary key.
delete from turno_adopted
where table_name = ?1

-- name: adopted_find
-- Purpose: an adopted table, and what was added to it. ?1 table. Index: the primary key.
select table_name, id_column, user_column, shape, max_attempts, text_times, columns, indexes
from turno_adopted
where table_name = ?1

-- name: outbox_table_claim
-- Purpose: claim due rows of an outbox table, in the order of their creation. :relay :limit :until :now :by_key :token
-- :candidates: only the oldest due rows are looked at, so that a long backlog of few keys costs no more; -1 for all.
-- Index: <table>_turno_pending for the rows, <table>_turno_keys for the earlier rows of a key.
-- The rule: not processed, attempts left, due, no claim or an expired one, and no earlier row of its key that must go first.
update {table}
set relay_token    = :token,
    -- The relay that had an expired claim may have published the row.
    relay_doubtful = min(relay_doubtful + (relay_until is not null), 1000000),
    relay_until    = :until,
    relay_due_at   = null,
    relay_name     = :relay,
    relay_at       = :now
where {id} in (
  select t.{id}
  from (
    select d.{id} as id
    from {table} d
    where {open d}
      and coalesce(d.{attempts}, 0) < {max_attempts}
      and (d.relay_until is null or d.relay_until <= :now)
      and (d.relay_due_at is null or d.relay_due_at <= :now)
    order by {place d}
    limit :candidates) c
  join {table} t on t.{id} = c.id
  where not exists (
    select 1
    from {table} e
    where {key e} = {key t}
      and {open e}
      and ({place e}) < ({place t})
      and case when coalesce(e.{attempts}, 0) < {max_attempts} then :by_key else e.relay_dead = 'block' end)
  order by {place t}
  limit :limit)

-- name: outbox_table_claimed
-- Purpose: the rows of a claim. :token. Index: <table>_turno_claims.
select
  {row t},
  exists (
    select 1
    from {table} d
    where {key d} = {key t}
      and {open d}
      and ({place d}) < ({place t})
      and coalesce(d.{attempts}, 0) >= {max_attempts}
      and d.relay_dead = 'park')
from {table} t
where t.relay_token = :token
  and {open t}
order by {place t}

-- name: outbox_table_discard
-- Purpose: mark rows as processed, so that they are never published. :ids in lower case as JSON :at :error :now. A row that a relay
-- has claimed is left out: it may be published at this moment. Index: <table>_turno_pending.
update {table} as t
set {processed}  = :at,
    {error}      = :error,
    relay_token  = null,
    relay_until  = null,
    relay_due_at = null,
    relay_dead   = 'discarded',
    relay_at     = :now
where {open t}
  and (t.relay_until is null or t.relay_until <= :now)
  and lower(cast(t.{id} as text)) in (select j.value from json_each(:ids) j)

-- name: outbox_table_extend
-- Purpose: extend a claim. :token :until. Index: <table>_turno_claims.
update {table} as t
set relay_until = :until
where t.relay_token = :token
  and {open t}

-- name: outbox_table_give_back
-- Purpose: give the rows of a claim back that have no outcome. :token. Index: <table>_turno_claims.
update {table} as t
set relay_token = null,
    relay_until = null
where t.relay_token = :token
  and {open t}

-- name: outbox_table_defer
-- Purpose: give a row of a claim back, due again later. :id :token :due. Index: the id's own.
update {table} as t
set relay_token  = null,
    relay_until  = null,
    relay_due_at = :due
where t.{id} = :id
  and t.relay_token = :token
  and {open t}

-- name: outbox_table_doubt
-- Purpose: a row of a claim may have arrived. :id :token. Index: the id's own.
update {table} as t
set relay_doubtful = min(t.relay_doubtful + 1, 1000000)
where t.{id} = :id
  and t.relay_token = :token
  and {open t}

-- name: outbox_table_has_pending
-- Purpose: whether a row is pending or claimed. :now. Index: <table>_turno_pending.
select exists (
  select 1
  from {table} t
  where {open t}
    and {state t} in ('pending', 'processing'))

-- name: outbox_table_list
-- Purpose: one page of the rows in one state. :state :after, which is the place of the last row of the previous page, as JSON, or null
-- :limit :now. Index: <table>_turno_pending for rows that are not processed, none for the others.
select
  json_array({place t}),
  {row t},
  t.relay_name,
  case :state when 'scheduled' then t.relay_due_at else t.relay_at end,
  t.relay_at,
  cast(t.{error} as text)
from {table} t
where {listed t}
  and {state t} = :state
  and (:after is null or ({place t}) > ({after}))
order by {place t}
limit :limit

-- name: outbox_table_recover
-- Purpose: end the claims of all relays: the next claim takes their rows over. :now. Index: <table>_turno_claims.
update {table} as t
set relay_until = :now
where t.relay_token is not null
  and {open t}
  and t.relay_until > :now

-- name: outbox_table_refuse
-- Purpose: the sink refused a row of a claim. :id :token :error :due :dead :now. Index: the id's own.
update {table} as t
set {attempts}   = case
      when :dead is not null then max(coalesce(t.{attempts}, 0) + 1, {max_attempts})
      else coalesce(t.{attempts}, 0) + 1
    end,
    {error}      = :error,
    relay_token  = null,
    relay_until  = null,
    relay_due_at = :due,
    relay_dead   = :dead,
    relay_at     = :now
where t.{id} = :id
  and t.relay_token = :token
  and {open t}

-- name: outbox_table_requeue
-- Purpose: make dead rows pending again, and those that are parked behind one. :ids in lower case as JSON, or null for all :limit.
-- Index: <table>_turno_pending.
with chosen as materialized (
  select
    d.{id}       as id,
    {key d}      as key,
    d.relay_dead as relay_dead
  from {table} d
  where {open d}
    and coalesce(d.{attempts}, 0) >= {max_attempts}
    and (:ids is null or lower(cast(d.{id} as text)) in (select j.value from json_each(:ids) j))
  order by {place d}
  limit :limit)
update {table} as t
set {attempts}   = 0,
    relay_dead   = null,
    relay_due_at = null
where {open t}
  and coalesce(t.{attempts}, 0) >= {max_attempts}
  and (t.{id} in (select c.id from chosen c)
    or (t.relay_dead = 'park' and {key t} in (select c.key from chosen c where c.relay_dead = 'park')))

-- name: outbox_table_row
-- Purpose: the columns of a row, inside other statements.
  cast(t.{id} as text),
  cast(t.{type} as text),
  cast({key t} as text),
  cast({correlation_id t} as text),
  cast(t.{payload} as text),
  cast(t.{created} as text),
  coalesce(t.{attempts}, 0),
  t.relay_doubtful

-- name: outbox_table_send
-- Purpose: the sink confirmed a row of a claim. :id :token :at :now. Index: the id's own.
-- A processed row keeps the token, by which a repeated call recognizes it.
update {table} as t
set {processed} = :at,
    relay_until = null,
    relay_dead  = null,
    relay_at    = :now
where t.{id} = :id
  and t.relay_token = :token
  and {open t}

-- name: outbox_table_sent
-- Purpose: whether this claim has ended with a confirmation of this row. :id :token. Index: the id's own.
select exists (
  select 1
  from {table} t
  where t.{id} = :id
    and t.relay_token = :token
    and not ({open t}))

-- name: outbox_table_state
-- Purpose: the state of a row, inside other statements. :now.
case
  when not ({open t}) then case when t.relay_dead = 'discarded' then 'discarded' else 'dispatched' end
  when coalesce(t.{attempts}, 0) >= {max_attempts} then case when t.relay_dead = 'block' then 'blocked' else 'dead' end
  when t.relay_until > :now then 'processing'
  when t.relay_due_at > :now then 'scheduled'
  else 'pending'
end

-- name: outbox_table_stats
-- Purpose: how many rows are in which state, of those that are not processed, and the oldest pending one; the oldest rows, if there
-- are very many. :now. Index: <table>_turno_pending.
select
  count(*),
  count(*) filter (where s.state = 'pending'),
  count(*) filter (where s.state = 'scheduled'),
  count(*) filter (where s.state = 'processing'),
  count(*) filter (where s.state = 'dead'),
  count(*) filter (where s.state = 'blocked'),
  count(distinct case when s.state = 'dead' and s.relay_dead = 'park' then s.key end),
  coalesce(sum(s.attempts), 0),
  min(case when s.state = 'pending' then s.created end)
from (
  select
    {state t}                   as state,
    {key t}                     as key,
    t.relay_dead                as relay_dead,
    coalesce(t.{attempts}, 0)   as attempts,
    cast(t.{created} as text)   as created
  from {table} t
  where {open t}
  order by {place t}
  limit {max_counted_rows}) s
