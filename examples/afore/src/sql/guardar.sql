-- Stores a certification. $1 nss, $2 curp, $3 tipoPrestacion, $4 the request, $5 the attempt, $6 user, $7 service.
insert into TB_NSAR_CERTIFICACION
    (CH_NSS, CH_CURP, CH_TIPO_PRESTACION, TX_ENTRADA, NU_INTENTO, CH_USUARIO_MODIFICADOR, CH_NOMBRE_SERVICIO)
values ($1, $2, $3, $4, $5, $6, $7)
