//! Responses of an instance.

use std::ops::Deref;

use jiff::Timestamp;
use serde_json::Value;

/// Returns the code of a business error; `None` if there is none.
pub fn codigo(respuesta: &Value) -> Option<&str> {
    respuesta["errors"][0]["extensions"]["codigo"].as_str()
}

pub fn mensaje(respuesta: &Value) -> &str {
    respuesta["errors"][0]["message"]
        .as_str()
        .unwrap_or_default()
}

/// Returns the number of responses that were rejected because of the lock. The others must be successful.
#[track_caller]
pub fn bloqueados(respuestas: &[Value]) -> usize {
    let (bloqueados, hechos): (Vec<_>, Vec<_>) = respuestas
        .iter()
        .partition(|respuesta| codigo(respuesta) == Some("RECURSO_BLOQUEADO"));
    for hecho in hechos {
        assert!(hecho["errors"].is_null(), "{hecho:#}");
    }
    bloqueados.len()
}

/// Returns the seconds in the document's message, whose text is checked word for word.
#[track_caller]
pub fn segundos_restantes(mensaje: &str, idusuario: i64) -> u64 {
    let segundos = mensaje
        .strip_prefix("El recurso está bloqueado por otra operación. Tiempo restante: ")
        .and_then(|resto| resto.strip_suffix(&format!(" segundos. Usuario: {idusuario}")));
    match segundos.and_then(|segundos| segundos.parse().ok()) {
        Some(segundos) => segundos,
        None => panic!("not the document's message: {mensaje:?}"),
    }
}

/// Parses the time in a field.
pub fn fecha(fila: &Value, campo: &str) -> Timestamp {
    fila[campo].as_str().unwrap().parse().unwrap()
}

/// A loan as the API shows it.
#[derive(Debug, PartialEq)]
pub struct Prestamo(pub Value);

impl Deref for Prestamo {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Prestamo {
    pub fn pagos(&self) -> usize {
        self["pagos"].as_array().unwrap().len()
    }

    /// Sum of the payments, in centavos.
    pub fn pagado(&self) -> i64 {
        sumar(&self["pagos"], "monto")
    }

    /// Sum of the amounts applied to instalments, in centavos.
    pub fn aplicado(&self) -> i64 {
        sumar(&self["cuotas"], "pagado")
    }

    /// Amounts paid and states of the instalments, the oldest first.
    pub fn cuotas(&self) -> Vec<(&str, &str)> {
        let cuotas = self["cuotas"].as_array().unwrap();
        cuotas
            .iter()
            .map(|cuota| {
                (
                    cuota["pagado"].as_str().unwrap(),
                    cuota["estado"].as_str().unwrap(),
                )
            })
            .collect()
    }
}

fn sumar(lista: &Value, campo: &str) -> i64 {
    let lista = lista.as_array().unwrap().iter();
    lista.map(|uno| centavos(&uno[campo])).sum()
}

pub fn centavos(monto: &Value) -> i64 {
    let monto = monto.as_str().unwrap();
    let (pesos, centavos) = monto.split_once('.').unwrap();
    assert_eq!(centavos.len(), 2, "{monto}");
    pesos.parse::<i64>().unwrap() * 100 + centavos.parse::<i64>().unwrap()
}
