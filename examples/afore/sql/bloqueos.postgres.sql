-- The document's table of locks, as a view: the locks that are held, and the requests in flight, at most 1000 of each. The names
-- of user and service are part of the worker of a request: USER@SERVICE on HOST/PID.
begin;
select pg_advisory_xact_lock(hashtext('TB_NSAR_BLOQUEO_DISTRIBUIDO'));
create or replace view TB_NSAR_BLOQUEO_DISTRIBUIDO as
select
    token as ID_BLOQUEO_DISTRIBUIDO,
    resource as CH_LLAVE_BLOQUEO,
    owner as CH_PROCESO_BLOQUEO,
    acquired_at as FC_INICIO_BLOQUEO,
    expires_at as FC_EXPIRA_BLOQUEO,
    "user" as CH_USUARIO_MODIFICADOR,
    service as CH_NOMBRE_SERVICIO
from turno.lock_list("limit" => 1000)
union all
select
    substring(claim from '@([0-9]+)$')::bigint,
    key,
    worker,
    began_at,
    expires_at,
    substring(worker from '^(.*?)@'),
    substring(worker from '@(.*) on ')
from turno.once_list('in_flight', "limit" => 1000);
commit;
