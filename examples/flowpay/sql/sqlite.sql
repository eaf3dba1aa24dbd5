-- Purpose: FlowPay's own tables. Amounts are whole centavos; times are text in UTC, from the clock of the database.

create table if not exists tbl_usuario (
  idusuario integer primary key,
  nombre    text not null
);

create table if not exists tbl_gestor (
  idgestor integer primary key,
  nombre   text not null
);

create table if not exists tbl_prestamo (
  idprestamo    integer primary key,
  codigo        text not null,
  estado        text not null check (estado in ('ACTIVO', 'PAGADO', 'REESTRUCTURADO')),
  monto         bigint not null check (monto > 0),
  idgestor      bigint references tbl_gestor,
  telefono      text not null default '',
  direccion     text not null default '',
  observaciones text not null default ''
);

create table if not exists tbl_cuota (
  idcuota           integer primary key,
  idprestamo        bigint not null references tbl_prestamo,
  numero            bigint not null,
  fecha_vencimiento text not null,
  monto             bigint not null check (monto > 0),
  pagado            bigint not null default 0 check (pagado between 0 and monto),
  estado            text not null check (estado in ('PENDIENTE', 'PARCIAL', 'PAGADA', 'CANCELADA')),
  unique (idprestamo, numero)
);

create table if not exists tbl_pago (
  idpago     integer primary key,
  idprestamo bigint not null references tbl_prestamo,
  idusuario  bigint references tbl_usuario,
  monto      bigint not null check (monto > 0),
  fecha      text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

create index if not exists tbl_pago_prestamo on tbl_pago (idprestamo);

create table if not exists tbl_aplicacion (
  idpago  bigint not null references tbl_pago,
  idcuota bigint not null references tbl_cuota,
  monto   bigint not null check (monto > 0),
  primary key (idpago, idcuota)
);

create table if not exists tbl_asignacion (
  idasignacion      integer primary key,
  idprestamo        bigint not null references tbl_prestamo,
  idgestor_anterior bigint references tbl_gestor,
  idgestor          bigint not null references tbl_gestor,
  idusuario         bigint references tbl_usuario,
  fecha             text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

create index if not exists tbl_asignacion_prestamo on tbl_asignacion (idprestamo);

create table if not exists tbl_reestructuracion (
  idreestructuracion    integer primary key,
  idprestamo_original   bigint not null references tbl_prestamo,
  idprestamo_nuevo      bigint not null references tbl_prestamo,
  idusuario_solicitante bigint references tbl_usuario,
  saldo                 bigint not null check (saldo > 0),
  fecha                 text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

create index if not exists tbl_reestructuracion_original on tbl_reestructuracion (idprestamo_original);

-- Purpose: the document's tbl_lock, with its columns; evento says how a lease ended. It reads Turno's tables, because a lock that has
--          expired and was not swept yet is only there. Turno's times are microseconds; here they are text in UTC.
--          SQLite rejects some changes of a table that a view reads: drop the view before `turno migrate`. An instance that starts
--          creates it again.
-- Index:   none: for people who look, not for the operations.
create view if not exists tbl_lock as
with lease as (
  select
    l.resource, l.token, l.user, l.description, l.acquired_at, l.expires_at,
    null as released_at,
    iif(l.expires_at > unixepoch('now', 'subsec') * 1000000, 'acquired', 'expired') as event
  from turno_lock l
  where l.holds > 0
  union all
  select
    h.resource, h.token, h.user, h.description, h.acquired_at, h.expires_at,
    iif(h.event in ('released', 'broken'), h.at, null),
    h.event
  from turno_lock_history h
  where h.event in ('released', 'expired', 'taken_over', 'broken'))
select
  l.resource || '@' || l.token                                   as idlock,
  substr(l.resource, 1, instr(l.resource, '/') - 1)              as tipoRecurso,
  cast(substr(l.resource, instr(l.resource, '/') + 1) as integer) as idrecurso,
  cast(l.user as integer)                                        as idusuario,
  l.description                                                  as descripcion,
  l.event = 'acquired'                                           as activo,
  strftime('%Y-%m-%dT%H:%M:%S', l.acquired_at / 1000000, 'unixepoch') || printf('.%06dZ', l.acquired_at % 1000000) as fechaCreacion,
  strftime('%Y-%m-%dT%H:%M:%S', l.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', l.expires_at % 1000000) as fechaExpiracion,
  strftime('%Y-%m-%dT%H:%M:%S', l.released_at / 1000000, 'unixepoch') || printf('.%06dZ', l.released_at % 1000000) as fechaLiberacion,
  l.event                                                        as evento
from lease l
where l.resource glob 'PRESTAMO/*'
  or l.resource glob 'PAGO/*'
  or l.resource glob 'REESTRUCTURACION/*';
