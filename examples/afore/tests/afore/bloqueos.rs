//! `ConcurrencyService`: executeWithLock and isResourceLocked, as processes.

use std::path::Path;

use turno::history::{History, Part};
use turno::lock::HistoryEvent;
use turno_testkit::eventually;

use crate::hijo::Hijo;
use crate::lugar::Lugar;
use crate::{LONG, on_each_store};

on_each_store!(
    execute_with_lock_uno_a_la_vez,
    expiracion_otro_lo_toma_tras_un_kill_9,
    limpieza_automatica,
);

const RECURSO: &str = "CERTIFICACION/12345678901";

fn execute_with_lock(lugar: &Lugar, config: &Path) -> Hijo {
    let config = config.to_str().unwrap();
    Hijo::de(&[
        "--store",
        &lugar.store,
        "--config",
        config,
        "execute-with-lock",
        RECURSO,
    ])
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

    let impaciente = execute_with_lock(lugar, &breve);
    assert_eq!(impaciente.dice(""), "null");
    let paciente = execute_with_lock(lugar, &largo);
    primero.sigue(1);
    primero.dice("liberado");
    let siguiente: u64 = paciente.dice("adquirido ").parse().unwrap();
    assert!(siguiente > ficha, "the token only grows");
    paciente.sigue(1);
    paciente.dice("liberado");
    assert!(!is_resource_locked(lugar));
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
