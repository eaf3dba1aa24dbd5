-- Creates the table of certifications.
create table if not exists TB_NSAR_CERTIFICACION (
    ID_CERTIFICACION integer primary key,
    CH_NSS text not null,
    CH_CURP text not null,
    CH_TIPO_PRESTACION text not null check (length(CH_TIPO_PRESTACION) <= 10),
    TX_ENTRADA text not null,
    NU_INTENTO integer not null,
    CH_USUARIO_MODIFICADOR text not null,
    CH_NOMBRE_SERVICIO text not null
);
