//! Problem 1 and use case 1: the same payment is registered twice.

use serde_json::json;

use crate::en_cada_base;
use crate::escena::{Escena, Lugar};
use crate::pedidos::{PAGAR, pago};
use crate::respuestas::{bloqueados, codigo, mensaje, segundos_restantes};

en_cada_base! {
    /// "Doble Registro de Pago Simultáneo", "Caso de uso 1": of three at once, one is registered.
    con_lock_un_pago_se_registra_una_vez => con_lock;
    /// The control: three payments, of which only one was applied to the instalments.
    sin_lock_un_pago_se_registra_tres_veces => sin_lock;
    /// "Rechaza la operación con mensaje": an operation during a payment in flight changes nothing, and can be retried.
    un_prestamo_bloqueado_se_rechaza_y_no_cambia => bloqueado;
    /// "Liberación Automática … incluso si hay error": a rejected payment leaves no lock behind.
    un_pago_rechazado_libera_el_lock => rechazado;
    /// "Previene aplicación incorrecta de montos": applied to the oldest instalments first, to the centavo, until the loan is
    /// paid.
    un_pago_se_aplica_a_las_cuotas_mas_antiguas => aplicacion;
}

const MONTO: &str = "150.00";

async fn con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let pagos = [1, 2, 3].map(|usuario| (PAGAR, pago(id, usuario, MONTO)));
    let respuestas = escena.a_la_vez(&pagos).await;
    assert_eq!(bloqueados(&respuestas), 2, "{respuestas:#?}");

    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!(prestamo.pagos(), 1);
    assert_eq!(prestamo.pagado(), 15_000);
    assert_eq!(prestamo.aplicado(), 15_000);
    assert_eq!(prestamo["saldo"], "1050.00");
}

async fn sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let id = escena.testigo.crear_prestamo().await;
    let pagos = [1, 2, 3].map(|usuario| (PAGAR, pago(id, usuario, MONTO)));
    let respuestas = escena.a_la_vez(&pagos).await;
    assert_eq!(bloqueados(&respuestas), 0);

    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!(prestamo.pagos(), 3);
    assert_eq!(prestamo.pagado(), 45_000);
    assert_eq!(prestamo.aplicado(), 15_000);
    assert_eq!(prestamo["saldo"], "1050.00");
}

async fn bloqueado(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let primero = escena.detener(0, PAGAR, pago(id, 1, MONTO)).await;
    let antes = escena.testigo.prestamo(id).await;

    for usuario in [2, 3] {
        let instancia = &escena.instancias[usuario - 1];
        let rechazo = instancia.pagar(id, usuario as i64, MONTO).await;
        assert_eq!(codigo(&rechazo), Some("RECURSO_BLOQUEADO"));
        let segundos = segundos_restantes(mensaje(&rechazo), 1);
        assert!((1..=300).contains(&segundos), "{segundos}");
        assert!(rechazo["data"].is_null());
    }
    assert_eq!(escena.testigo.prestamo(id).await, antes);

    assert!(primero.seguir().await["errors"].is_null());
    assert_eq!(escena.testigo.prestamo(id).await.pagos(), 1);
    let segundo = escena.detener(1, PAGAR, pago(id, 2, MONTO)).await;
    assert!(segundo.seguir().await["errors"].is_null());
    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!((prestamo.pagado(), prestamo.aplicado()), (30_000, 30_000));
}

async fn rechazado(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;
    let antes = instancia.prestamo(id).await;

    let rechazo = instancia.pagar(id, 1, "1200.01").await;
    assert_eq!(codigo(&rechazo), Some("MONTO_EXCEDE_SALDO"));
    assert_eq!(
        mensaje(&rechazo),
        "El monto 1200.01 excede el saldo pendiente de 1200.00."
    );
    assert_eq!(instancia.prestamo(id).await, antes);

    assert_eq!(instancia.verificar_lock(id).await["bloqueado"], false);
    let locks = instancia.locks(id).await;
    assert_eq!(locks.len(), 1, "{locks:#?}");
    assert_eq!(locks[0]["evento"], "released");
    assert_eq!(
        locks[0]["descripcion"],
        "Registro de pago para préstamo P-001"
    );
}

async fn aplicacion(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;

    let respuesta = instancia.pagar(id, 1, "250.10").await;
    let aplicaciones = &respuesta["data"]["registrarPagoConAplicacion"]["aplicaciones"];
    let montos: Vec<_> = aplicaciones
        .as_array()
        .unwrap()
        .iter()
        .map(|una| &una["monto"])
        .collect();
    assert_eq!(montos, ["100.00", "100.00", "50.10"]);
    let prestamo = instancia.prestamo(id).await;
    let cuotas = prestamo.cuotas();
    assert_eq!(cuotas[1], ("100.00", "PAGADA"));
    assert_eq!(cuotas[2], ("50.10", "PARCIAL"));
    assert_eq!(cuotas[3], ("0.00", "PENDIENTE"));
    assert_eq!(prestamo["saldo"], "949.90");

    // A whole number is exact, too.
    let resto = json!({ "input": { "idprestamo": id, "monto": 949 } });
    assert!(instancia.graphql(PAGAR, resto).await.unwrap()["errors"].is_null());
    assert!(instancia.pagar(id, 1, "0.9").await["errors"].is_null());
    let prestamo = instancia.prestamo(id).await;
    assert_eq!(prestamo["saldo"], "0.00");
    assert_eq!(prestamo["estado"], "PAGADO");
    assert_eq!(prestamo.aplicado(), 120_000);

    let rechazo = instancia.pagar(id, 1, "0.01").await;
    assert_eq!(codigo(&rechazo), Some("PRESTAMO_NO_ACTIVO"));
}
