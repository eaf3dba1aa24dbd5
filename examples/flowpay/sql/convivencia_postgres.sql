-- For the time in which old instances (the document's statements on tbl_lock) and new ones (Turno's locks) work on the same loans:
-- each row of tbl_lock that becomes active takes Turno's lock of its resource, and each one that ends releases it. Run it before
-- the first new instance starts. When no old instance is left:
--
--   drop table tbl_lock;
--   drop function tbl_lock_adquirir(), tbl_lock_liberar();
--
-- and the next instance that starts creates the view tbl_lock.

begin;

-- No old instance may take a lock between the two steps below.
lock table tbl_lock in share row exclusive mode;

alter table tbl_lock add column if not exists "turnoToken" bigint;

-- Purpose: an insert of an old instance fails, with the document's message, if any instance has the lock. The document looks for an
--          active row first, and then inserts: two callers can do that at once, and a lock of Turno is in no row.
-- Index:   those of turno.lock_acquire.
create or replace function tbl_lock_adquirir() returns trigger
language plpgsql
as $$
declare
  hecho turno.lock_outcome;
begin
  hecho := turno.lock_acquire(
    new."tipoRecurso" || '/' || new.idrecurso,
    owner       => 'tbl_lock/' || new.idlock,
    ttl         => new."fechaExpiracion" - (clock_timestamp() at time zone 'utc'),
    "user"      => new.idusuario::text,
    service     => 'flowpay',
    description => nullif(new.descripcion, ''));
  if hecho.outcome <> 'acquired' then
    raise exception using
      errcode = 'lock_not_available',
      message = format(
        'El recurso está bloqueado por otra operación. Tiempo restante: %s segundos. Usuario: %s',
        ceil(extract(epoch from hecho.remaining)), coalesce(hecho."user", 'desconocido'));
  end if;
  new."turnoToken" := hecho.token;
  return new;
end
$$;

-- Purpose: the release of an old instance. If another instance has taken the lock over, its token is not this one, and nothing happens.
-- Index:   those of turno.lock_release.
create or replace function tbl_lock_liberar() returns trigger
language plpgsql
as $$
begin
  if old."turnoToken" is not null then
    perform turno.lock_release(old."tipoRecurso" || '/' || old.idrecurso, old."turnoToken");
  end if;
  return null;
end
$$;

-- Locks that old instances have at this moment.
update tbl_lock t
set "turnoToken" = (turno.lock_acquire(
  t."tipoRecurso" || '/' || t.idrecurso,
  owner       => 'tbl_lock/' || t.idlock,
  ttl         => t."fechaExpiracion" - (clock_timestamp() at time zone 'utc'),
  "user"      => t.idusuario::text,
  service     => 'flowpay',
  description => nullif(t.descripcion, ''))).token
where t.activo
  and t."turnoToken" is null
  and t."fechaExpiracion" > clock_timestamp() at time zone 'utc';

create or replace trigger tbl_lock_insertar
before insert on tbl_lock
for each row
when (new.activo)
execute function tbl_lock_adquirir();

create or replace trigger tbl_lock_activar
before update on tbl_lock
for each row
when (new.activo and not old.activo)
execute function tbl_lock_adquirir();

create or replace trigger tbl_lock_desactivar
after update on tbl_lock
for each row
when (old.activo and not new.activo)
execute function tbl_lock_liberar();

create or replace trigger tbl_lock_borrar
after delete on tbl_lock
for each row
when (old.activo)
execute function tbl_lock_liberar();

commit;
