-- Purpose: FlowPay's own tables. Amounts are whole centavos; times are text in UTC, from the clock of the database.

create table if not exists tbl_usuario (
  idusuario bigint generated always as identity primary key,
  nombre    text not null
);

create table if not exists tbl_gestor (
  idgestor bigint generated always as identity primary key,
  nombre   text not null
);

create table if not exists tbl_prestamo (
  idprestamo    bigint generated always as identity primary key,
  codigo        text not null,
  estado        text not null check (estado in ('ACTIVO', 'PAGADO', 'REESTRUCTURADO')),
  monto         bigint not null check (monto > 0),
  idgestor      bigint references tbl_gestor,
  telefono      text not null default '',
  direccion     text not null default '',
  observaciones text not null default ''
);

create table if not exists tbl_cuota (
  idcuota           bigint generated always as identity primary key,
  idprestamo        bigint not null references tbl_prestamo,
  numero            bigint not null,
  fecha_vencimiento text not null,
  monto             bigint not null check (monto > 0),
  pagado            bigint not null default 0 check (pagado between 0 and monto),
  estado            text not null check (estado in ('PENDIENTE', 'PARCIAL', 'PAGADA', 'CANCELADA')),
  unique (idprestamo, numero)
);

create table if not exists tbl_pago (
  idpago     bigint generated always as identity primary key,
  idprestamo bigint not null references tbl_prestamo,
  idusuario  bigint references tbl_usuario,
  monto      bigint not null check (monto > 0),
  fecha      text not null default to_char(
    clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
);

create index if not exists tbl_pago_prestamo on tbl_pago (idprestamo);

create table if not exists tbl_aplicacion (
  idpago  bigint not null references tbl_pago,
  idcuota bigint not null references tbl_cuota,
  monto   bigint not null check (monto > 0),
  primary key (idpago, idcuota)
);

create table if not exists tbl_asignacion (
  idasignacion      bigint generated always as identity primary key,
  idprestamo        bigint not null references tbl_prestamo,
  idgestor_anterior bigint references tbl_gestor,
  idgestor          bigint not null references tbl_gestor,
  idusuario         bigint references tbl_usuario,
  fecha             text not null default to_char(
    clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
);

create index if not exists tbl_asignacion_prestamo on tbl_asignacion (idprestamo);

create table if not exists tbl_reestructuracion (
  idreestructuracion    bigint generated always as identity primary key,
  idprestamo_original   bigint not null references tbl_prestamo,
  idprestamo_nuevo      bigint not null references tbl_prestamo,
  idusuario_solicitante bigint references tbl_usuario,
  saldo                 bigint not null check (saldo > 0),
  fecha                 text not null default to_char(
    clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
);

create index if not exists tbl_reestructuracion_original on tbl_reestructuracion (idprestamo_original);

-- Purpose: the rows of the document's tbl_lock, with its columns; evento says how a lease ended. They come from Turno's tables, because
--          a lock that has expired and was not swept yet is only there. So the caller must be the owner of schema turno.
--          Not a view: a migration of Turno may change its tables, and PostgreSQL rejects that while a view reads them. The body of a
--          plpgsql function is bound when it runs.
-- Index:   none: for people who look, not for the operations.
create or replace function tbl_lock_filas()
returns table (
  idlock            text,
  "tipoRecurso"     text,
  idrecurso         bigint,
  idusuario         bigint,
  descripcion       text,
  activo            boolean,
  "fechaCreacion"   timestamptz,
  "fechaExpiracion" timestamptz,
  "fechaLiberacion" timestamptz,
  evento            text
)
language plpgsql
as $$
#variable_conflict use_column
begin
  return query
  with lease as (
    select
      l.resource, l.token, l."user", l.description, l.acquired_at, l.expires_at,
      null::timestamptz as released_at,
      case when l.expires_at > clock_timestamp() then 'acquired' else 'expired' end as event
    from turno.lock l
    where l.holds > 0
    union all
    select
      h.resource, h.token, h."user", h.description, h.acquired_at, h.expires_at,
      case when h.event in ('released', 'broken') then h.at end,
      h.event
    from turno.lock_history h
    where h.event in ('released', 'expired', 'taken_over', 'broken'))
  select
    l.resource || '@' || l.token,
    split_part(l.resource, '/', 1),
    split_part(l.resource, '/', 2)::bigint,
    case when l."user" ~ '^-?[0-9]{1,18}$' then l."user"::bigint end,
    l.description,
    l.event = 'acquired',
    l.acquired_at,
    l.expires_at,
    l.released_at,
    l.event
  from lease l
  where l.resource ~ '^(PRESTAMO|PAGO|REESTRUCTURACION)/-?[0-9]{1,18}$';
end
$$;

-- Purpose: the document's tbl_lock. If there is a table of that name, old instances use it (see convivencia_postgres.sql), and it stays.
-- Index:   none.
do $$
begin
  if not exists (
    select
    from pg_class c
    where c.oid = to_regclass('tbl_lock')
      and c.relkind <> 'v') then
    create or replace view tbl_lock as
    select
      f.idlock, f."tipoRecurso", f.idrecurso, f.idusuario, f.descripcion, f.activo,
      f."fechaCreacion", f."fechaExpiracion", f."fechaLiberacion", f.evento
    from tbl_lock_filas() f;
  end if;
end
$$;
