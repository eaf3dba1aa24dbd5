//! "Mantenimiento": sweeps of locks that were not released.

use serde_json::{Value, json};
use turno_testkit::eventually_async;

use crate::en_cada_base;
use crate::ensayo::PACIENCIA;
use crate::escena::Lugar;

en_cada_base! {
    /// `limpiarLocksExpirados`: closes expired locks, once, returns their number, and does not change held ones.
    limpiar_locks_expirados_cuenta_los_que_limpia => a_mano;
    /// "Ejecutar periódicamente": each instance does it by itself.
    los_locks_expirados_se_limpian_solos => periodica;
}

async fn a_mano(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let vivo = instancia.adquirir_lock(1, json!({})).await;
    for id in [2, 3] {
        instancia
            .adquirir_lock(id, json!({ "timeoutSegundos": 1 }))
            .await;
    }
    let mut limpiados = 0;
    eventually_async(PACIENCIA, "two locks to expire", async || {
        limpiados += instancia.limpiar_locks_expirados().await;
        (limpiados >= 2).then_some(())
    })
    .await;
    assert_eq!(limpiados, 2);
    assert_eq!(instancia.limpiar_locks_expirados().await, 0);

    for id in [2, 3] {
        let locks = instancia.locks(id).await;
        assert_eq!(locks.len(), 1);
        assert_eq!(locks[0]["activo"], false);
        assert_eq!(locks[0]["evento"], "expired");
        assert_eq!(locks[0]["fechaLiberacion"], Value::Null);
    }
    assert_eq!(instancia.locks(1).await[0]["idlock"], vivo["idlock"]);
    assert_eq!(instancia.verificar_lock(1).await["bloqueado"], true);
}

async fn periodica(lugar: Lugar) {
    let instancia = lugar.instancia(&["--limpiar-cada", "1"]);
    instancia
        .adquirir_lock(1, json!({ "timeoutSegundos": 1 }))
        .await;
    eventually_async(PACIENCIA, "the lock to be swept", async || {
        let locks = instancia.locks(1).await;
        let limpio = locks.iter().any(|lock| lock["evento"] == "expired");
        limpio.then_some(())
    })
    .await;
}
