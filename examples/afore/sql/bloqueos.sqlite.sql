-- The document's table of locks, as a view: the locks that are held, and the requests in flight. The names of user and service
-- are part of the worker of a request: USER@SERVICE on HOST/PID. Turno's tables have times in microseconds.
create view if not exists TB_NSAR_BLOQUEO_DISTRIBUIDO as
select
    token as ID_BLOQUEO_DISTRIBUIDO,
    resource as CH_LLAVE_BLOQUEO,
    owner as CH_PROCESO_BLOQUEO,
    strftime('%Y-%m-%d %H:%M:%f', acquired_at / 1000000.0, 'unixepoch') as FC_INICIO_BLOQUEO,
    strftime('%Y-%m-%d %H:%M:%f', expires_at / 1000000.0, 'unixepoch') as FC_EXPIRA_BLOQUEO,
    user as CH_USUARIO_MODIFICADOR,
    service as CH_NOMBRE_SERVICIO
from turno_lock
where mode = 'exclusive'
  and holds > 0
  and expires_at > unixepoch('subsec') * 1000000
union all
select
    token,
    key,
    worker,
    strftime('%Y-%m-%d %H:%M:%f', began_at / 1000000.0, 'unixepoch'),
    strftime('%Y-%m-%d %H:%M:%f', until / 1000000.0, 'unixepoch'),
    substr(worker, 1, instr(worker, '@') - 1),
    substr(worker, instr(worker, '@') + 1, instr(worker, ' on ') - instr(worker, '@') - 1)
from turno_once
where state = 'running'
  and until > unixepoch('subsec') * 1000000;
