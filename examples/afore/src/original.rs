//! "Implementación Original": no control of duplicates, and no use of Turno. `turno gate` can be put in front of it.

use std::sync::Arc;

use anyhow::{Result, ensure};
use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json, Router, middleware};

use crate::cliente::Cliente;
use crate::contrato::{
    self, RUTA, ValidarSolicitudCertificacionAforeEntrada as Entrada,
    ValidarSolicitudCertificacionAforeSalida as Salida,
};
use crate::notificaciones;
use crate::servicio::ValidarSolicitudCertificacionAforeService as Servicio;

struct Original {
    servicio: Servicio,
    cliente: Cliente,
    aviso: String,
}

/// Returns the endpoint. Notifications are posted to `aviso`.
pub fn router(servicio: Servicio, aviso: String) -> Router {
    let original = Original {
        servicio,
        cliente: Cliente::nuevo(),
        aviso,
    };
    let metodo = post(validar_solicitud_certificacion_afore)
        .route_layer(middleware::from_fn(contrato::mantener));
    Router::new()
        .route(RUTA, metodo)
        .with_state(Arc::new(original))
}

async fn validar_solicitud_certificacion_afore(
    State(original): State<Arc<Original>>,
    Extension(entrada): Extension<Arc<Entrada>>,
) -> Json<Salida> {
    tracing::info!(
        nss = entrada.nss,
        "Entrada validarSolicitudCertificacionAfore"
    );
    let tipo_prestacion = entrada.tipo_prestacion.clone();
    // In a task of its own, like the thread of a servlet: it ends its work although its client has disconnected.
    let procesada = tokio::spawn(async move { original.procesar(&entrada).await }).await;
    let procesada = procesada.map_err(Into::into).and_then(|salida| salida);
    Json(procesada.unwrap_or_else(|error: anyhow::Error| {
        tracing::error!(error = format!("{error:#}"), "error en la aplicación");
        Salida::error(Some(tipo_prestacion))
    }))
}

impl Original {
    async fn procesar(&self, entrada: &Entrada) -> Result<Salida> {
        if !self.servicio.es_dia_habil()? {
            return Ok(Salida::rechazada(entrada));
        }
        let salida = self.servicio.validar(entrada).await;
        let mut tx = self.servicio.base.begin().await?;
        tx.guardar(entrada, 1, &self.servicio.configuracion).await?;
        tx.commit().await?;
        // If anything fails from here on, the certification is stored but the notification is lost.
        let aviso = notificaciones::texto(entrada, &salida)?;
        let (status, _) = self.cliente.post(&self.aviso, aviso).await?;
        ensure!(status < 300, "the AFORE answered {status}");
        Ok(salida)
    }
}
