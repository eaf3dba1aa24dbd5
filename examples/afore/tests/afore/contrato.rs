//! Requests and responses of the contract.

use serde_json::{Value, json};

/// Returns a request for certification of the worker with this NSS.
pub fn entrada(nss: &str) -> String {
    json!({"nss": nss, "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT"}).to_string()
}

pub fn salida(resultado: &str, diagnostico: &str, tipo: impl Into<Value>) -> Value {
    json!({
        "resultadoOperacion": resultado,
        "diagnosticoProcesar": diagnostico,
        "tipoPrestacion": tipo.into(),
    })
}

pub fn aceptada() -> Value {
    salida("01", "000", "RT")
}

pub fn duplicada() -> Value {
    salida("02", "532", "RT")
}
