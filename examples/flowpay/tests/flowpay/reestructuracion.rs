//! Problem 3 and use case 4: one loan that is restructured several times.

use serde_json::Value;

use crate::en_cada_base;
use crate::escena::{Escena, Lugar};
use crate::pedidos::{PAGAR, REESTRUCTURAR, pago, reestructuracion};
use crate::respuestas::{bloqueados, codigo};

en_cada_base! {
    /// "Reestructuración Simultánea", "Caso de uso 4": of three at once, one creates a new loan.
    con_lock_hay_un_prestamo_nuevo => con_lock;
    /// The control: "múltiples préstamos nuevos", and three times the debt.
    sin_lock_hay_tres_prestamos_nuevos => sin_lock;
    /// "Garantiza historial correcto": a payment is rejected while a loan is being restructured.
    con_lock_un_pago_espera_a_la_reestructuracion => pago_con_lock;
    /// The control, "historial corrupto": what was paid meanwhile is owed again.
    sin_lock_lo_pagado_se_debe_otra_vez => pago_sin_lock;
    /// "Siempre liberar el lock" (`finally`): an explicit lock is also released if the work fails.
    el_lock_manual_se_libera_aunque_falle => fallida;
}

fn tres(id: i64) -> [(&'static str, Value); 3] {
    [1, 2, 3].map(|usuario| (REESTRUCTURAR, reestructuracion(id, usuario)))
}

async fn con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    assert!(escena.testigo.pagar(id, 1, "250.00").await["errors"].is_null());
    let respuestas = escena.a_la_vez(&tres(id)).await;
    assert_eq!(bloqueados(&respuestas), 2, "{respuestas:#?}");

    let original = escena.testigo.prestamo(id).await;
    assert_eq!(original["estado"], "REESTRUCTURADO");
    assert_eq!(original["saldo"], "0.00");
    // Paid instalments stay paid; the others are cancelled.
    assert_eq!(original.cuotas()[1], ("100.00", "PAGADA"));
    assert_eq!(original.cuotas()[2], ("50.00", "CANCELADA"));
    assert_eq!(original.cuotas()[11], ("0.00", "CANCELADA"));
    let historia = original["reestructuraciones"].as_array().unwrap();
    assert_eq!(historia.len(), 1);
    let nuevo = historia[0]["idprestamoNuevo"].as_i64().unwrap();
    let nuevo = escena.testigo.prestamo(nuevo).await;
    assert_eq!(nuevo["saldo"], "950.00");
    assert_eq!(nuevo["codigo"], "P-001-R");
    assert_eq!(nuevo.cuotas().len(), 24);

    let tarde = escena
        .testigo
        .graphql(REESTRUCTURAR, reestructuracion(id, 4))
        .await
        .unwrap();
    assert_eq!(codigo(&tarde), Some("PRESTAMO_NO_ACTIVO"));
}

async fn sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let id = escena.testigo.crear_prestamo().await;
    assert_eq!(bloqueados(&escena.a_la_vez(&tres(id)).await), 0);

    let original = escena.testigo.prestamo(id).await;
    let historia = original["reestructuraciones"].as_array().unwrap();
    assert_eq!(historia.len(), 3);
    for una in historia {
        let nuevo = una["idprestamoNuevo"].as_i64().unwrap();
        assert_eq!(escena.testigo.prestamo(nuevo).await["saldo"], "1200.00");
    }
}

async fn pago_con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let reestructura = escena
        .detener(0, REESTRUCTURAR, reestructuracion(id, 1))
        .await;
    // The timeout is ten minutes.
    let restantes = escena.testigo.verificar_lock(id).await["segundosRestantes"].as_u64();
    assert!((301..=600).contains(&restantes.unwrap()), "{restantes:?}");
    let rechazo = escena.testigo.pagar(id, 2, "100.00").await;
    assert_eq!(codigo(&rechazo), Some("RECURSO_BLOQUEADO"));
    assert!(reestructura.seguir().await["errors"].is_null());

    let tarde = escena.testigo.pagar(id, 2, "100.00").await;
    assert_eq!(codigo(&tarde), Some("PRESTAMO_NO_ACTIVO"));
    assert_eq!(escena.testigo.prestamo(id).await.pagos(), 0);
}

async fn pago_sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let id = escena.testigo.crear_prestamo().await;
    let reestructura = escena
        .detener(0, REESTRUCTURAR, reestructuracion(id, 1))
        .await;
    let paga = escena.detener(1, PAGAR, pago(id, 2, "100.00")).await;
    assert!(paga.seguir().await["errors"].is_null());
    let hecho = reestructura.seguir().await;

    let hecho = &hecho["data"]["reestructurarPrestamo"];
    assert_eq!(hecho["saldo"], "1200.00", "although 100.00 was paid");
    assert_eq!(escena.testigo.prestamo(id).await.pagado(), 10_000);
}

async fn fallida(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;
    let antes = instancia.prestamo(id).await;
    let mut sin_cuotas = reestructuracion(id, 1);
    sin_cuotas["input"]["cuotas"] = 0.into();
    let rechazo = instancia.graphql(REESTRUCTURAR, sin_cuotas).await.unwrap();
    assert_eq!(codigo(&rechazo), Some("CUOTAS_INVALIDAS"));

    assert_eq!(instancia.verificar_lock(id).await["bloqueado"], false);
    let locks = instancia.locks(id).await;
    assert_eq!(locks.len(), 1);
    assert_eq!(
        locks[0]["descripcion"],
        "Reestructuración de préstamo P-001"
    );
    assert_eq!(locks[0]["evento"], "released");
    assert_eq!(instancia.prestamo(id).await, antes);
}
