-- Purpose: FlowPay's own tables. Amounts are whole centavos; times are text in UTC, from the clock of the database.

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
  idusuario  bigint,
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
  idusuario         bigint,
  fecha             text not null default to_char(
    clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
);

create index if not exists tbl_asignacion_prestamo on tbl_asignacion (idprestamo);

create table if not exists tbl_reestructuracion (
  idreestructuracion    bigint generated always as identity primary key,
  idprestamo_original   bigint not null references tbl_prestamo,
  idprestamo_nuevo      bigint not null references tbl_prestamo,
  idusuario_solicitante bigint,
  saldo                 bigint not null check (saldo > 0),
  fecha                 text not null default to_char(
    clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
);

create index if not exists tbl_reestructuracion_original on tbl_reestructuracion (idprestamo_original);
