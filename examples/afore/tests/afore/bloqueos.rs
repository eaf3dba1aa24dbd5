//! `ConcurrencyService`: executeWithLock and isResourceLocked, as processes.

use std::fs::File;
use std::path::Path;

use turno::Token;
use turno::history::{History, Part};
use turno::lock::{HistoryEvent, ReleaseOutcome};
use turno_testkit::eventually;

use crate::contrato::{aceptada, entrada};
use crate::hijo::Hijo;
use crate::lugar::Lugar;
use crate::{LONG, on_each_store};

on_each_store!(
    execute_with_lock_uno_a_la_vez,
    execute_with_lock_libera_en_todo_caso,
    quien_lo_tiene_lo_recibe_otra_vez,
    la_tabla_del_documento_es_una_vista,
    expiracion_otro_lo_toma_tras_un_kill_9,
    limpieza_automatica,
);

const RECURSO: &str = "CERTIFICACION/12345678901";
const TODOS: &str = "select count(*) from TB_NSAR_BLOQUEO_DISTRIBUIDO";

fn orden<'a>(lugar: &'a Lugar, config: &'a Path) -> [&'a str; 6] {
    let config = config.to_str().unwrap();
    let store = &lugar.store;
    [
        "--store",
        store,
        "--config",
        config,
        "execute-with-lock",
        RECURSO,
    ]
}

fn execute_with_lock(lugar: &Lugar, config: &Path) -> Hijo {
    Hijo::de(&orden(lugar, config))
}

fn is_resource_locked(lugar: &Lugar) -> bool {
    let hijo = Hijo::de(&["--store", &lugar.store, "is-resource-locked", RECURSO]);
    hijo.dice("").parse().unwrap()
}

/// One of three processes gets the lock. A process gets null after `lock.retry.max` attempts; one that retries for longer gets
/// the lock after the release. The row names the holder, as `TB_NSAR_BLOQUEO_DISTRIBUIDO` did.
fn execute_with_lock_uno_a_la_vez(lugar: &Lugar) {
    assert!(!is_resource_locked(lugar));
    let breve = lugar.configurar(&[("lock.retry.delay.ms", "10")]);
    let largo = lugar.configurar(&[("lock.retry.delay.ms", "10"), ("lock.retry.max", "100000")]);
    let primero = execute_with_lock(lugar, &breve);
    let ficha: u64 = primero.dice("adquirido ").parse().unwrap();
    assert!(is_resource_locked(lugar));

    let estado = lugar
        .runtime
        .block_on(lugar.turno().lock(RECURSO).status())
        .unwrap();
    let quien = &estado.holders[0].attribution;
    assert_eq!(quien.service.as_deref(), Some("CERT_AFORE"));
    assert_eq!(quien.user.as_deref(), Some("SYSTEM"));
    assert_eq!(quien.pid, i32::try_from(primero.proceso.id()).ok());

    let registro = lugar.escribir("registro", "");
    let archivo = File::create(&registro).unwrap();
    let impaciente = Hijo::con_registro(&orden(lugar, &breve), archivo, None);
    assert_eq!(impaciente.dice(""), "null");
    assert!(impaciente.proceso.wait_timeout(LONG).unwrap().success());
    let registro = std::fs::read_to_string(registro).unwrap();
    let avisa = format!(
        "WARN afore::concurrencia: No se pudo adquirir el bloqueo para el recurso: {RECURSO}"
    );
    assert!(registro.contains(&avisa), "{registro}");

    let paciente = execute_with_lock(lugar, &largo);
    primero.sigue(1);
    primero.dice("liberado");
    let siguiente: u64 = paciente.dice("adquirido ").parse().unwrap();
    assert!(siguiente > ficha, "the token only grows");
    paciente.sigue(1);
    paciente.dice("liberado");
    assert!(!is_resource_locked(lugar));
}

/// releaseLock: only with the holder's token. And the `finally` of executeWithLock: an action that fails releases, too.
fn execute_with_lock_libera_en_todo_caso(lugar: &Lugar) {
    let config = lugar.configurar(&[]);
    let tiene = execute_with_lock(lugar, &config);
    let ficha: i64 = tiene.dice("adquirido ").parse().unwrap();
    let ajena = lugar.turno().lock(RECURSO).release(Token(ficha - 1));
    // It ends nothing: the lock is held by another token.
    let dicho = lugar.runtime.block_on(ajena).unwrap();
    assert!(
        !matches!(dicho, ReleaseOutcome::Released { .. }),
        "{dicho:?}"
    );
    assert!(is_resource_locked(lugar));

    tiene.falla();
    assert!(!tiene.proceso.wait_timeout(LONG).unwrap().success());
    assert!(!is_resource_locked(lugar));
}

/// acquireLock, step 1: the process that has the lock gets it again, with the same token; another one does not.
fn quien_lo_tiene_lo_recibe_otra_vez(lugar: &Lugar) {
    let turno = lugar.turno();
    let adquirir = |proceso: &str| {
        let bloqueo = turno.lock(RECURSO).owner(proceso);
        let dicho = lugar.runtime.block_on(bloqueo.acquire()).unwrap();
        dicho.acquired()
    };
    let primero = adquirir("proceso 1").unwrap();
    let otra_vez = adquirir("proceso 1").unwrap();
    assert_eq!(otra_vez.token(), primero.token());
    assert!(adquirir("proceso 2").is_none());
    // On drop, a lease renews and releases in a runtime.
    lugar
        .runtime
        .block_on(async move { drop((primero, otra_vez)) });
}

/// "Modelo de Datos": the columns of `TB_NSAR_BLOQUEO_DISTRIBUIDO`, for a lock and for a request in flight.
fn la_tabla_del_documento_es_una_vista(lugar: &Lugar) {
    let [instancia, _, _] = lugar.instancias(&["--a-mano"]);
    assert_eq!(lugar.numero(TODOS), 0);
    let config = lugar.configurar(&[]);
    let bloqueo = execute_with_lock(lugar, &config);
    let ficha: i64 = bloqueo.dice("adquirido ").parse().unwrap();
    let peticion = lugar.pedir(&instancia, entrada("12345678901"));
    instancia.dice("procesando ");
    assert_eq!(lugar.numero(TODOS), 2);
    let del_bloqueo = "select ID_BLOQUEO_DISTRIBUIDO from TB_NSAR_BLOQUEO_DISTRIBUIDO
        where CH_LLAVE_BLOQUEO = 'CERTIFICACION/12345678901'";
    assert_eq!(lugar.numero(del_bloqueo), ficha);
    let completos = "select count(*) from TB_NSAR_BLOQUEO_DISTRIBUIDO
        where (CH_LLAVE_BLOQUEO like 'certificacion:%' or CH_LLAVE_BLOQUEO like 'CERTIFICACION/%')
        and ID_BLOQUEO_DISTRIBUIDO > 0 and CH_PROCESO_BLOQUEO <> '' and FC_INICIO_BLOQUEO < FC_EXPIRA_BLOQUEO
        and CH_USUARIO_MODIFICADOR = 'SYSTEM' and CH_NOMBRE_SERVICIO = 'CERT_AFORE'";
    assert_eq!(lugar.numero(completos), 2);

    bloqueo.sigue(1);
    bloqueo.dice("liberado");
    instancia.sigue(1);
    assert_eq!(lugar.esperar(peticion), Some((200, aceptada())));
    assert_eq!(lugar.numero(TODOS), 0);
}

/// "Expiración de Bloqueos": an expired lock can be taken over without a cleanup.
fn expiracion_otro_lo_toma_tras_un_kill_9(lugar: &Lugar) {
    let config = lugar.configurar(&[
        ("lock.timeout.seconds", "1"),
        ("lock.retry.delay.ms", "10"),
        ("lock.retry.max", "100000"),
        ("lock.cleanup.enabled", "false"),
    ]);
    let muerto = execute_with_lock(lugar, &config);
    muerto.dice("adquirido ");
    muerto.proceso.kill_9();
    let otro = execute_with_lock(lugar, &config);
    otro.dice("adquirido ");
}

/// "Limpieza Automática": any instance sweeps expired locks and records it.
fn limpieza_automatica(lugar: &Lugar) {
    let config = lugar.configurar(&[
        ("lock.timeout.seconds", "1"),
        ("lock.cleanup.interval.seconds", "1"),
    ]);
    let muerto = execute_with_lock(lugar, &config);
    muerto.dice("adquirido ");
    muerto.proceso.kill_9();
    let _instancias = lugar.instancias(&["--config", config.to_str().unwrap()]);
    let turno = lugar.turno();
    eventually(LONG, "the cleaning", || {
        let historia = lugar.runtime.block_on(turno.history(History {
            part: Some(Part::Lock),
            resource: Some(RECURSO.to_owned()),
            limit: 10,
            prefix: String::new(),
            before: None,
        }));
        let historia = historia.unwrap();
        let expirado = historia
            .iter()
            .any(|entrada| entrada.event == HistoryEvent::Expired);
        expirado.then_some(())
    });
}
