-- The document's tbl_lock, as Prisma creates it from its model: what old instances have. Its times are in UTC. The relation to
-- tbl_usuario is left out.

create table tbl_lock (
  idlock            serial primary key,
  "tipoRecurso"     text not null,
  idrecurso         integer not null,
  idusuario         integer,
  descripcion       text,
  activo            boolean not null default true,
  "fechaCreacion"   timestamp(3) not null default (clock_timestamp() at time zone 'utc'),
  "fechaExpiracion" timestamp(3) not null,
  "fechaLiberacion" timestamp(3)
);

create index "tbl_lock_tipoRecurso_idrecurso_activo_idx" on tbl_lock ("tipoRecurso", idrecurso, activo);
create index "tbl_lock_fechaExpiracion_activo_idx" on tbl_lock ("fechaExpiracion", activo);
