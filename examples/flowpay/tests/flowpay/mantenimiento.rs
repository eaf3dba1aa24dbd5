//! "Mantenimiento": sweeps of locks that were not released.

use std::fs;

use serde_json::{Value, json};
use turno_testkit::eventually_async;

use crate::en_cada_base;
use crate::ensayo::{Instancia, PACIENCIA};
use crate::escena::Lugar;

en_cada_base! {
    /// `limpiarLocksExpirados`: closes expired locks, once, returns their number, and does not change held ones.
    limpiar_locks_expirados_cuenta_los_que_limpia => a_mano;
    /// The document's cron job: "Locks limpiados: N".
    el_comando_limpiar_dice_cuantos => comando_limpiar;
    /// "Monitoreo": "Préstamo bloqueado por usuario …", "Expira en: …".
    el_comando_verificar_dice_quien_y_hasta_cuando => comando_verificar;
    /// Each instance logs its own sweeps in the same words.
    cada_instancia_dice_cuantos_limpia => registro;
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

/// Locks two loans for a second, and waits until both have expired.
async fn dos_expirados(instancia: &Instancia) {
    for id in [2, 3] {
        let corto = json!({ "timeoutSegundos": 1 });
        instancia.adquirir_lock(id, corto).await;
    }
    eventually_async(PACIENCIA, "two locks to expire", async || {
        let consulta = "{ locks(activo: false) { evento } }";
        let locks = instancia.datos(consulta, json!({})).await;
        (locks["locks"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
}

async fn comando_limpiar(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    dos_expirados(&instancia).await;
    assert_eq!(lugar.comando(&["limpiar"]), "Locks limpiados: 2\n");
    assert_eq!(lugar.comando(&["limpiar"]), "Locks limpiados: 0\n");
}

async fn comando_verificar(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    assert_eq!(lugar.comando(&["verificar", "7"]), "Préstamo libre\n");
    instancia.adquirir_lock(7, json!({ "idusuario": 2 })).await;
    let locks = instancia.locks(7).await;
    let expira = locks[0]["fechaExpiracion"].as_str().unwrap();
    assert_eq!(
        lugar.comando(&["verificar", "7"]),
        format!("Préstamo bloqueado por usuario 2\nExpira en: {expira}\n")
    );
}

async fn registro(lugar: Lugar) {
    let (instancia, archivo) = lugar.instancia_con_log(&["--limpiar-cada", "1"]);
    let corto = json!({ "timeoutSegundos": 1 });
    instancia.adquirir_lock(1, corto).await;
    eventually_async(PACIENCIA, "the sweep in the log", async || {
        let log = fs::read_to_string(&archivo).unwrap();
        let linea = log
            .lines()
            .find(|linea| linea.ends_with("Locks limpiados: 1"));
        linea.map(|linea| assert!(linea.contains(" INFO "), "{linea}"))
    })
    .await;
}
