//! `notificarServicioAfore`: the notification to the AFORE about a certification.

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::contrato::{
    ValidarSolicitudCertificacionAforeEntrada as Entrada,
    ValidarSolicitudCertificacionAforeSalida as Salida,
};

/// Name of the notification, which is also the type of its event.
pub const NOTIFICAR: &str = "notificarServicioAfore";

/// Body of a notification.
#[derive(Serialize)]
struct Notificacion<'a> {
    entrada: &'a RawValue,
    salida: &'a Salida,
}

/// Returns the notification as JSON, with the request as it was received.
///
/// # Errors
/// None known.
pub fn texto(entrada: &Entrada, salida: &Salida) -> Result<String> {
    let entrada = &entrada.texto;
    Ok(serde_json::to_string(&Notificacion { entrada, salida })?)
}
