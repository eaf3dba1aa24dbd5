//! The contract: the format of requests and responses, also in case of errors.

use std::sync::Arc;

use anyhow::{Result, ensure};
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Path that requests are posted to.
pub const RUTA: &str = "/disposicionimss/certificacion";
/// Maximum size of a request. Requests have some hundred bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Request for certification. Unknown fields are kept in `texto`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidarSolicitudCertificacionAforeEntrada {
    /// Número de Seguridad Social: 11 digits.
    pub nss: String,
    /// Clave Única de Registro de Población: 18 letters and digits.
    pub curp: String,
    /// Kind of benefit that the certification is for.
    pub tipo_prestacion: String,
    /// The whole request, as it was received.
    #[serde(skip)]
    pub texto: Box<RawValue>,
}

impl ValidarSolicitudCertificacionAforeEntrada {
    fn leer(cuerpo: &[u8]) -> Result<Self> {
        let mut entrada: Self = serde_json::from_slice(cuerpo)?;
        let digitos = entrada.nss.bytes().all(|byte| byte.is_ascii_digit());
        ensure!(digitos && entrada.nss.len() == 11, "nss: 11 digits");
        let curp = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        let letras = entrada.curp.bytes().all(curp) && entrada.curp.len() == 18;
        ensure!(letras, "curp: 18 capital letters and digits");
        ensure!(!entrada.tipo_prestacion.is_empty(), "tipoPrestacion: empty");
        entrada.texto = serde_json::from_slice(cuerpo)?;
        Ok(entrada)
    }
}

/// Response of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidarSolicitudCertificacionAforeSalida {
    /// 01: certified; 02: not certified.
    pub resultado_operacion: String,
    /// Reason if not certified: 532 or 999. Else 000.
    pub diagnostico_procesar: String,
    /// As in the request.
    pub tipo_prestacion: Option<String>,
}

impl ValidarSolicitudCertificacionAforeSalida {
    fn nueva(resultado: &str, diagnostico: &str, tipo_prestacion: Option<String>) -> Self {
        Self {
            resultado_operacion: resultado.to_owned(),
            diagnostico_procesar: diagnostico.to_owned(),
            tipo_prestacion,
        }
    }

    /// Response 01/000: certified.
    pub fn aceptada(entrada: &ValidarSolicitudCertificacionAforeEntrada) -> Self {
        Self::nueva("01", "000", Some(entrada.tipo_prestacion.clone()))
    }

    /// 02/532: not a business day, or an identical request is being processed.
    pub fn rechazada(entrada: &ValidarSolicitudCertificacionAforeEntrada) -> Self {
        Self::nueva("02", "532", Some(entrada.tipo_prestacion.clone()))
    }

    /// 02/999: something went wrong.
    pub fn error(tipo_prestacion: Option<String>) -> Self {
        Self::nueva("02", "999", tipo_prestacion)
    }
}

/// Middleware that keeps the contract. The handler gets only valid requests, in their extensions. Every response other than
/// 200 (store unavailable, panic in the handler) becomes 02/999.
pub async fn mantener(request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    if !es_json(&head.headers) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    // A body that is too large or incomplete is an invalid request, too.
    let cuerpo = to_bytes(body, MAX_BYTES).await.unwrap_or_default();
    let entrada = match ValidarSolicitudCertificacionAforeEntrada::leer(&cuerpo) {
        Ok(entrada) => Arc::new(entrada),
        Err(error) => {
            tracing::warn!(%error, "malformed");
            return con_error(tipo_prestacion(&cuerpo));
        }
    };
    head.extensions.insert(entrada.clone());
    let request = Request::from_parts(head, Body::from(cuerpo));
    let respuesta = next.run(request).await;
    match respuesta.status() {
        StatusCode::OK => respuesta,
        status => {
            tracing::error!(%status, "error en la aplicación");
            con_error(Some(entrada.tipo_prestacion.clone()))
        }
    }
}

fn con_error(tipo_prestacion: Option<String>) -> Response {
    Json(ValidarSolicitudCertificacionAforeSalida::error(
        tipo_prestacion,
    ))
    .into_response()
}

/// Whether the content type is JSON (`consumes = application/json`).
fn es_json(headers: &HeaderMap) -> bool {
    let tipo = headers.get(header::CONTENT_TYPE);
    let tipo = tipo.and_then(|tipo| tipo.to_str().ok()).unwrap_or_default();
    let tipo = tipo.split(';').next().unwrap_or_default();
    tipo.trim().eq_ignore_ascii_case("application/json")
}

/// Reads `tipoPrestacion` from an invalid request, if it can be read.
fn tipo_prestacion(cuerpo: &[u8]) -> Option<String> {
    let valor: Value = serde_json::from_slice(cuerpo).ok()?;
    valor["tipoPrestacion"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_kept_to_the_letter() {
        let cuerpo = r#"{"nss": "12345678901", "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT", "folio": 9007199254740993.10}"#;
        let entrada = ValidarSolicitudCertificacionAforeEntrada::leer(cuerpo.as_bytes()).unwrap();
        assert_eq!(entrada.texto.get(), cuerpo);
        assert_eq!(
            serde_json::to_string(&ValidarSolicitudCertificacionAforeSalida::aceptada(
                &entrada
            ))
            .unwrap(),
            r#"{"resultadoOperacion":"01","diagnosticoProcesar":"000","tipoPrestacion":"RT"}"#
        );
    }
}
