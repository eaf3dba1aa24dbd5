//! Holders that are paused or killed during an operation: fencing and expiry.

use turno::lock::LeaseId;
use turno_testkit::eventually_async;

use crate::en_cada_base;
use crate::ensayo::PACIENCIA;
use crate::escena::{Escena, Lugar};
use crate::pedidos::{PAGAR, REESTRUCTURAR, pago, reestructuracion};
use crate::respuestas::{codigo, fecha};

en_cada_base! {
    /// The guard in the payment's transaction: a process that has lost the lock without noticing cannot commit.
    un_pago_atrasado_no_se_registra => |lugar| atrasado(lugar, &[]);
    /// The control, as in the document: the stale payment is stored, and overwrites the application of the other one.
    sin_guard_un_pago_atrasado_se_registra => |lugar| atrasado(lugar, &["--sin-guard"]);
    /// The same under the manual lock.
    una_reestructuracion_atrasada_no_se_registra => reestructuracion_atrasada;
    /// A process that is stopped for longer than its lease, as by a long pause of its machine.
    un_proceso_detenido_no_registra_su_pago => detenido;
    /// "Expiración automática de locks para evitar deadlocks": a process killed with -9 blocks the loan until its lock
    /// expires.
    un_proceso_muerto_bloquea_hasta_la_expiracion => muerto;
}

/// Duration of a lock whose expiry the test waits for. The first renewal is due one second after the acquire, long after the
/// process is stopped. A process stopped during a renewal would keep the whole SQLite file locked.
const CORTO: [&str; 2] = ["--timeout-segundos", "3"];

/// An operator breaks the lock of a payment in flight, and another payment gets the lock. So the test need not wait for a
/// timeout, and the first process does not notice.
async fn atrasado(lugar: Lugar, opciones: &[&str]) {
    let mut escena = Escena::nueva(lugar, opciones).await;
    let id = escena.testigo.crear_prestamo().await;
    let atrasado = escena.detener(0, PAGAR, pago(id, 1, "100.00")).await;
    romper(&escena, id).await;
    let segundo = escena.detener(1, PAGAR, pago(id, 2, "70.00")).await;
    assert!(segundo.seguir().await["errors"].is_null());

    let respuesta = atrasado.seguir().await;
    let prestamo = escena.testigo.prestamo(id).await;
    if opciones.is_empty() {
        assert_eq!(codigo(&respuesta), Some("LOCK_PERDIDO"), "{respuesta:#}");
        assert_eq!((prestamo.pagado(), prestamo.aplicado()), (7_000, 7_000));
        assert_eq!(prestamo["pagos"][0]["idusuario"], 2);
    } else {
        assert!(respuesta["errors"].is_null());
        assert_eq!((prestamo.pagado(), prestamo.aplicado()), (17_000, 10_000));
    }
}

async fn reestructuracion_atrasada(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let atrasada = escena
        .detener(0, REESTRUCTURAR, reestructuracion(id, 1))
        .await;
    romper(&escena, id).await;
    let segundo = escena.detener(1, PAGAR, pago(id, 2, "70.00")).await;
    assert!(segundo.seguir().await["errors"].is_null());

    assert_eq!(codigo(&atrasada.seguir().await), Some("LOCK_PERDIDO"));
    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!(prestamo["estado"], "ACTIVO");
    assert_eq!(prestamo["saldo"], "1130.00");
    assert_eq!(prestamo["reestructuraciones"].as_array().unwrap().len(), 0);
}

async fn romper(escena: &Escena, id: i64) {
    let lock = &escena.testigo.locks(id).await[0];
    assert_eq!(lock["activo"], true);
    let idlock: LeaseId = lock["idlock"].as_str().unwrap().parse().unwrap();
    let turno = escena.lugar.turno().await;
    turno
        .lock(&idlock.resource)
        .force_break(idlock.token, "no responde")
        .await
        .unwrap();
    assert_eq!(escena.testigo.locks(id).await[0]["evento"], "broken");
}

async fn detenido(lugar: Lugar) {
    let mut escena = Escena::con(lugar, [&CORTO, &[], &[]]).await;
    let id = escena.testigo.crear_prestamo().await;
    let pausado = escena.detener(0, PAGAR, pago(id, 1, "100.00")).await;
    escena.instancias[0].proceso.stop();
    pagar_despues(&escena, id).await;
    escena.instancias[0].proceso.cont();

    assert_eq!(codigo(&pausado.seguir().await), Some("LOCK_PERDIDO"));
    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!((prestamo.pagado(), prestamo.aplicado()), (7_000, 7_000));
}

async fn muerto(lugar: Lugar) {
    let mut escena = Escena::con(lugar, [&CORTO, &[], &[]]).await;
    let id = escena.testigo.crear_prestamo().await;
    let perdido = escena.detener(0, PAGAR, pago(id, 1, "100.00")).await;
    escena.instancias[0].proceso.kill_9();
    pagar_despues(&escena, id).await;
    perdido.olvidar();

    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!((prestamo.pagado(), prestamo.aplicado()), (7_000, 7_000));
    let locks = escena.testigo.locks(id).await;
    assert_eq!(locks.len(), 2, "{locks:#?}");
    assert_eq!(locks[1]["idusuario"], 1);
    assert_eq!(locks[1]["evento"], "taken_over");
    // Not before the expiry.
    assert!(fecha(&locks[0], "fechaCreacion") >= fecha(&locks[1], "fechaExpiracion"));
}

/// Retries a payment until the lock has expired.
async fn pagar_despues(escena: &Escena, id: i64) {
    let pagado = eventually_async(PACIENCIA, "the lock to expire", async || {
        let respuesta = escena.testigo.pagar(id, 2, "70.00").await;
        (codigo(&respuesta) != Some("RECURSO_BLOQUEADO")).then_some(respuesta)
    })
    .await;
    assert!(pagado["errors"].is_null(), "{pagado:#}");
}
