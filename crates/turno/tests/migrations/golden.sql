-- Purpose: one line of text per object of the schema, in an order that does not depend on the server.
-- Index:   none, a few hundred rows of the catalog.

with rights(kind, object, text) as (
  select 'r', c.oid, string_agg(format('%s: %s', r.rolname, lower(a.privilege_type)), ', ' order by r.rolname collate "C", a.privilege_type)
  from pg_class c
    cross join aclexplode(c.relacl) a
    join pg_roles r on r.oid = a.grantee
  where c.relnamespace = 'turno'::regnamespace
    and a.grantee <> c.relowner
  group by c.oid
  union all
  select 'f', p.oid, string_agg(coalesce(r.rolname, 'public'), ', ' order by r.rolname collate "C")
  from pg_proc p
    cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    left join pg_roles r on r.oid = a.grantee
  where p.pronamespace = 'turno'::regnamespace
    and a.grantee <> p.proowner
  group by p.oid
),
relations as (
  select
    c.oid,
    c.relname::text as name,
    case c.relkind when 'r' then 'table' when 'v' then 'view' when 'c' then 'type' when 'S' then 'sequence' end as kind,
    case c.relpersistence when 'u' then ' unlogged' else '' end as persistence
  from pg_class c
  where c.relnamespace = 'turno'::regnamespace
    and c.relkind in ('r', 'v', 'c', 'S')
),
lines(name, place, number, text) as (
  select r.name, 1, 0, concat(r.kind, ' ', r.name, r.persistence, ' (' || t.text || ')')
  from relations r
    left join rights t on t.kind = 'r' and t.object = r.oid
  union all
  select r.name, 2, a.attnum,
    concat('  ', a.attname, ' ', format_type(a.atttypid, a.atttypmod),
      ' collate ' || nullif(l.collname, 'default'),
      case when a.attnotnull then ' not null' end,
      ' default ' || pg_get_expr(d.adbin, d.adrelid))
  from relations r
    join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_collation l on l.oid = a.attcollation
    left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
  where r.kind <> 'sequence'
  union all
  select r.name, 3, row_number() over (partition by r.oid order by c.conname collate "C"),
    concat('  constraint ', c.conname, ' ', pg_get_constraintdef(c.oid))
  from relations r
    join pg_constraint c on c.conrelid = r.oid and c.contype <> 'n'
  union all
  select r.name, 4, row_number() over (partition by r.oid order by i.indexrelid::regclass::text collate "C"),
    concat('  ', pg_get_indexdef(i.indexrelid))
  from relations r
    join pg_index i on i.indrelid = r.oid
  union all
  select concat('~', p.proname, ' ', pg_get_function_identity_arguments(p.oid)), 1, 0,
    concat('function ', p.proname, '(', pg_get_function_arguments(p.oid), ') returns ', pg_get_function_result(p.oid),
      case p.provolatile when 'i' then ' immutable' when 's' then ' stable' end,
      case when p.prosecdef then ' security definer' end,
      ': ' || t.text)
  from pg_proc p
    left join rights t on t.kind = 'f' and t.object = p.oid
  where p.pronamespace = 'turno'::regnamespace
)
select text
from lines
order by name collate "C", place, number
