//! The document's scenarios: única, duplicadas, día no hábil.

use serde_json::{Value, json};

use crate::contrato::{aceptada, duplicada, entrada, salida};
use crate::hijo::Hijo;
use crate::lugar::Lugar;
use crate::on_each_store;

on_each_store!(
    escenario_1_peticion_unica,
    escenario_2_peticiones_duplicadas,
    escenario_2_escritas_de_otro_modo,
    escenario_2_control_la_original_las_procesa_todas,
    escenario_3_dia_no_habil,
);

pub const PETICIONES: usize = 12;

/// Sends one request many times at once, and returns the first `cuantas` responses; the other requests continue.
pub fn a_la_vez(
    lugar: &Lugar,
    hijos: &[Hijo],
    cuantas: usize,
) -> (Vec<Value>, impl FnOnce() -> Vec<Value>) {
    let (decir, oir) = std::sync::mpsc::channel();
    for hijo in hijos.iter().cycle().take(PETICIONES) {
        let (decir, peticion) = (decir.clone(), lugar.pedir(hijo, entrada("12345678901")));
        lugar.runtime.spawn(async move {
            let (status, salida) = peticion.await.unwrap().unwrap();
            assert_eq!(status, 200, "{salida}");
            // The receiver is closed if the test has failed.
            let _ = decir.send(salida);
        });
    }
    drop(decir);
    let primeras = oir.iter().take(cuantas).collect();
    (primeras, move || oir.into_iter().collect())
}

/// Different requests are processed, each with its response and its notification. A repetition after the end is processed
/// again.
fn escenario_1_peticion_unica(lugar: &Lugar) {
    let instancias = lugar.instancias(&[]);
    let peticion = |n: usize| {
        format!(
            r#"{{"nss": "1234567890{n}", "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT", "folio": 9007199254740993}}"#
        )
    };
    for (n, instancia) in instancias.iter().enumerate() {
        assert_eq!(lugar.certificar(instancia, peticion(n)), aceptada());
    }
    assert_eq!(lugar.procesadas(), 3);
    let propias = "select count(*) from TB_NSAR_CERTIFICACION where NU_INTENTO = 1
        and CH_NOMBRE_SERVICIO = 'CERT_AFORE' and CH_USUARIO_MODIFICADOR = 'SYSTEM'";
    assert_eq!(lugar.numero(propias), 3, "as application.properties says");

    let mut avisos = lugar.todo_avisado().avisos;
    avisos.sort_by_key(Value::to_string);
    let esperados: Vec<Value> = (0..3)
        .map(|n| {
            // Unknown fields are passed on.
            let entrada: Value = serde_json::from_str(&peticion(n)).unwrap();
            json!({"entrada": entrada, "salida": aceptada()})
        })
        .collect();
    assert_eq!(avisos, esperados);

    // "Se libera el bloqueo para permitir el procesamiento de futuras peticiones."
    assert_eq!(lugar.certificar(&instancias[1], peticion(0)), aceptada());
    assert_eq!(lugar.procesadas(), 4);
}

/// Of identical requests that reach three instances at once, one is processed. The others get 02/532 at once.
fn escenario_2_peticiones_duplicadas(lugar: &Lugar) {
    let instancias = lugar.instancias(&["--a-mano"]);
    let (primeras, ultimas) = a_la_vez(lugar, &instancias, PETICIONES - 1);
    // All others have their response while one is being processed.
    assert_eq!(primeras, vec![duplicada(); PETICIONES - 1]);
    assert_eq!(lugar.procesadas(), 0);
    instancias.iter().for_each(|instancia| instancia.sigue(1));
    assert_eq!(ultimas(), [aceptada()]);
    assert_eq!(lugar.procesadas(), 1);
    assert_eq!(lugar.todo_avisado().avisos.len(), 1);
}

/// The control: without the protection, each of them is processed and notified.
fn escenario_2_control_la_original_las_procesa_todas(lugar: &Lugar) {
    let instancias = lugar.instancias(&["--a-mano", "--sin-turno"]);
    let (_, todas) = a_la_vez(lugar, &instancias, 0);
    for instancia in instancias.iter().cycle().take(PETICIONES) {
        instancia.dice("procesando ");
    }
    for instancia in &instancias {
        instancia.sigue(PETICIONES);
    }
    assert_eq!(todas(), vec![aceptada(); PETICIONES]);
    assert_eq!(lugar.procesadas(), PETICIONES as i64);
    assert_eq!(lugar.recibidas().avisos.len(), PETICIONES);
}

/// Requests are identical if their content is. The document hashes the object, and so does Turno: white space, the order of
/// keys and the sender do not matter; each value does.
fn escenario_2_escritas_de_otro_modo(lugar: &Lugar) {
    let instancias = lugar.instancias(&["--a-mano"]);
    let peticion = r#"{"nss":"12345678901","curp":"PEGJ850101HDFRRN09","tipoPrestacion":"RT","folio":{"a":1.0,"b":2}}"#;
    let primera = lugar.pedir(&instancias[0], peticion);
    instancias[0].dice("procesando ");
    let iguales = [
        "{ \"folio\": {\"b\": 2, \"a\": 1.0},\n\"tipoPrestacion\" : \"RT\", \"curp\": \"PEGJ850101HDFRRN09\", \"nss\": \"12345678901\" }",
        r#"{"nss":"\u0031\u0032345678901","curp":"PEGJ850101HDFRRN09","tipoPrestacion":"RT","folio":{"a":1.0,"b":2}}"#,
    ];
    for (igual, instancia) in iguales.iter().zip(&instancias[1..]) {
        assert_eq!(lugar.certificar(instancia, *igual), duplicada());
    }
    let de_otro = [
        ("content-type", "application/json; charset=utf-8"),
        ("authorization", "Bearer otro"),
    ];
    let dicho = lugar.esperar(lugar.pedir_con(&instancias[1], peticion, &de_otro));
    assert_eq!(dicho, Some((200, duplicada())));

    instancias[2].sigue(1);
    let otra = peticion.replace("\"b\":2", "\"b\":3");
    assert_eq!(lugar.certificar(&instancias[2], otra), aceptada());
    // A key with null is not a key that is absent.
    instancias[2].sigue(1);
    let nula = peticion.replace("\"folio\"", "\"nota\":null,\"folio\"");
    assert_eq!(lugar.certificar(&instancias[2], nula), aceptada());
    instancias[0].sigue(1);
    assert_eq!(lugar.esperar(primera), Some((200, aceptada())));
    assert_eq!(lugar.procesadas(), 3);
}

/// On a holiday and on a Sunday nothing is processed; the response is 02/532. A year without a calendar is an error.
fn escenario_3_dia_no_habil(lugar: &Lugar) {
    for (hoy, esperada) in [
        ("2026-12-25", duplicada()),
        ("2026-11-15", duplicada()),
        ("2001-01-02", salida("02", "999", "RT")),
    ] {
        let instancia = lugar.instancia_de(hoy, &[]);
        let dicha = lugar.certificar(&instancia, entrada("12345678901"));
        assert_eq!(dicha, esperada, "{hoy}");
    }
    assert_eq!(lugar.procesadas(), 0);
    assert_eq!(lugar.todo_avisado().recibidas, 0);
}
