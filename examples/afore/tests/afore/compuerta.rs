//! The original implementation, without any use of Turno, behind `turno gate`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::contrato::{aceptada, duplicada, entrada, salida};
use crate::escenarios::{PETICIONES, a_la_vez};
use crate::hijo::Hijo;
use crate::lugar::{HABIL, Lugar};
use crate::on_each_store;

on_each_store!(
    tras_la_compuerta_se_procesa_una,
    tras_la_compuerta_el_contrato
);

/// Path of the `turno` binary, in the folder of this test's binary.
fn turno() -> PathBuf {
    let prueba = std::env::current_exe().unwrap();
    let turno = prueba
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("turno");
    assert!(
        turno.exists(),
        "{} is missing: run `cargo build --workspace --all-features`",
        turno.display()
    );
    turno
}

/// Starts a gate in front of an instance, with the routes of this example.
fn compuerta(lugar: &Lugar, instancia: &Hijo) -> Hijo {
    let rutas = concat!(env!("CARGO_MANIFEST_DIR"), "/routes.toml");
    compuerta_con(&lugar.store, instancia, &["--routes", rutas])
}

/// Starts a gate in front of an instance.
pub fn compuerta_con(store: &str, instancia: &Hijo, opciones: &[&str]) -> Hijo {
    let servicio = format!("http://{}", instancia.direccion);
    let mut orden = Command::new(turno());
    orden.args(["--json", "--store", store, "gate"]);
    orden.args(["--upstream", &servicio, "--listen", "127.0.0.1:0"]);
    orden.args(opciones);
    let mut hijo = Hijo::de_orden(&mut orden);
    let dicho: Value = serde_json::from_str(&hijo.dice("")).unwrap();
    hijo.direccion = dicho["listening"].as_str().unwrap().to_owned();
    hijo
}

/// Escenario 2 for a service that does not handle duplicates. (Its control is the same without the gates:
/// `escenario_2_control_la_original_las_procesa_todas`.)
fn tras_la_compuerta_se_procesa_una(lugar: &Lugar) {
    let instancias = lugar.instancias(&["--a-mano", "--sin-turno"]);
    let compuertas = instancias
        .each_ref()
        .map(|instancia| compuerta(lugar, instancia));
    let (primeras, ultimas) = a_la_vez(lugar, &compuertas, PETICIONES - 1);
    assert_eq!(primeras, vec![duplicada(); PETICIONES - 1]);
    instancias.iter().for_each(|instancia| instancia.sigue(2));
    assert_eq!(ultimas(), [aceptada()]);
    assert_eq!((lugar.procesadas(), lugar.recibidas().avisos.len()), (1, 1));
    // The run has ended: the same request is processed again, through any gate.
    assert_eq!(
        lugar.certificar(&compuertas[2], entrada("12345678901")),
        aceptada()
    );
    assert_eq!(lugar.procesadas(), 2);
}

/// "Compatibilidad": responses of the service pass unchanged, also those to invalid requests.
fn tras_la_compuerta_el_contrato(lugar: &Lugar) {
    let instancias = [HABIL, "2026-12-25"].map(|hoy| lugar.instancia_de(hoy, &["--sin-turno"]));
    let [abierta, festiva] = instancias.each_ref().map(|hijo| compuerta(lugar, hijo));
    for (cuerpo, esperada) in [
        ("{", salida("02", "999", Value::Null)),
        (r#"{"tipoPrestacion": "RT"}"#, salida("02", "999", "RT")),
        (
            &entrada("12345678901").replace("RT", "DEMASIADO LARGA"),
            salida("02", "999", "DEMASIADO LARGA"),
        ),
    ] {
        assert_eq!(lugar.certificar(&abierta, cuerpo), esperada);
    }
    assert_eq!(
        lugar.certificar(&festiva, entrada("12345678901")),
        duplicada()
    );
    assert_eq!(lugar.procesadas(), 0);
    assert_eq!(
        lugar.certificar(&abierta, entrada("12345678901")),
        aceptada()
    );
    assert_eq!(lugar.procesadas(), 1);
}
