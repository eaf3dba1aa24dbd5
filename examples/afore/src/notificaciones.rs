//! `notificarServicioAfore`: telling the AFORE what was certified.

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::contrato::{
    ValidarSolicitudCertificacionAforeEntrada as Entrada,
    ValidarSolicitudCertificacionAforeSalida as Salida,
};

/// The name of the notification, which is the type of its event.
pub const NOTIFICAR: &str = "notificarServicioAfore";

/// What the AFORE is told.
#[derive(Serialize)]
struct Notificacion<'a> {
    entrada: &'a RawValue,
    salida: &'a Salida,
}

/// The notification as JSON, with the request as it came.
///
/// # Errors
/// None that is known.
pub fn texto(entrada: &Entrada, salida: &Salida) -> Result<String> {
    let entrada = &entrada.texto;
    Ok(serde_json::to_string(&Notificacion { entrada, salida })?)
}
