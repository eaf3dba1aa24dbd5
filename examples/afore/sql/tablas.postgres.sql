-- Creates the table of certifications. The lock serializes instances that start at the same time: `if not exists` alone does
-- not prevent two of them from creating the table at once.
begin;
select pg_advisory_xact_lock(hashtext('TB_NSAR_CERTIFICACION'));
create table if not exists TB_NSAR_CERTIFICACION (
    ID_CERTIFICACION bigint generated always as identity primary key,
    CH_NSS varchar(11) not null,
    CH_CURP varchar(18) not null,
    CH_TIPO_PRESTACION text not null check (length(CH_TIPO_PRESTACION) <= 10),
    TX_ENTRADA text not null,
    NU_INTENTO bigint not null,
    CH_USUARIO_MODIFICADOR varchar(50) not null,
    CH_NOMBRE_SERVICIO varchar(100) not null
);
commit;
