//! Invalid input: rejected in Spanish, with a code, and without effect.

use serde_json::{Value, json};

use crate::en_cada_base;
use crate::escena::Lugar;
use crate::pedidos::{ASIGNAR, MODIFICAR, PAGAR, REESTRUCTURAR};
use crate::respuestas::{codigo, mensaje};

en_cada_base! {
    /// Business errors are GraphQL errors with `extensions.codigo`. They change nothing.
    lo_invalido_se_rechaza_con_su_codigo => invalido;
    /// Amounts are decimals: a value that may have been a float is rejected.
    un_monto_no_es_un_float => montos;
}

async fn invalido(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;
    let antes = instancia.prestamo(id).await;
    let fecha = "2028-01-31";
    let casos: [(&str, Value, &str); 10] = [
        (
            PAGAR,
            json!({ "idprestamo": 99, "monto": "1" }),
            "PRESTAMO_NO_ENCONTRADO",
        ),
        (
            PAGAR,
            json!({ "idprestamo": id, "monto": "0" }),
            "MONTO_INVALIDO",
        ),
        (
            PAGAR,
            json!({ "idprestamo": id, "monto": "-5.00" }),
            "MONTO_INVALIDO",
        ),
        (
            PAGAR,
            json!({ "idprestamo": id, "monto": "1200.01" }),
            "MONTO_EXCEDE_SALDO",
        ),
        (
            ASIGNAR,
            json!({ "idprestamo": id, "idgestor": 99 }),
            "GESTOR_NO_ENCONTRADO",
        ),
        (
            ASIGNAR,
            json!({ "idprestamo": 99, "idgestor": 99 }),
            "PRESTAMO_NO_ENCONTRADO",
        ),
        (
            MODIFICAR,
            json!({ "idprestamo": id, "telefono": "5\n6" }),
            "TEXTO_INVALIDO",
        ),
        (
            MODIFICAR,
            json!({ "idprestamo": id, "observaciones": "x".repeat(2001) }),
            "TEXTO_INVALIDO",
        ),
        (
            REESTRUCTURAR,
            json!({ "idprestamoOriginal": id, "cuotas": 361, "primerVencimiento": fecha }),
            "CUOTAS_INVALIDAS",
        ),
        (
            REESTRUCTURAR,
            json!({ "idprestamoOriginal": id, "cuotas": 12, "primerVencimiento": "31/01/2028" }),
            "FECHA_INVALIDA",
        ),
    ];
    for (consulta, input, esperado) in casos {
        let respuesta = instancia
            .graphql(consulta, json!({ "input": input }))
            .await
            .unwrap();
        assert_eq!(codigo(&respuesta), Some(esperado), "{respuesta:#}");
        assert!(mensaje(&respuesta).ends_with('.'), "{respuesta:#}");
    }
    assert_eq!(instancia.prestamo(id).await, antes);
    assert_eq!(instancia.verificar_lock(id).await["bloqueado"], false);
}

async fn montos(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;
    for malo in [
        json!(100.1),
        json!("100.105"),
        json!("cien"),
        json!("1e2"),
        json!("10000000000000.00"),
    ] {
        let input = json!({ "input": { "idprestamo": id, "monto": malo } });
        let respuesta = instancia.graphql(PAGAR, input).await.unwrap();
        assert_eq!(codigo(&respuesta), Some("MONTO_INVALIDO"), "{respuesta:#}");
    }
    assert_eq!(instancia.prestamo(id).await.pagos(), 0);
}
