//! "Implementación con Control de Concurrencia", on Turno: identical requests are recognized, notifications are not lost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Response, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router, middleware};
use turno::Turno;
use turno::once::http::{
    Attempt, InFlight, KeyFrom, OnceLayer, Policy, Template, Unknown, WorkOutcome,
};
use turno::outbox::Event;
use turno::tx::Transaction;

use crate::base::Tx;
use crate::contrato::{
    self, RUTA, ValidarSolicitudCertificacionAforeEntrada as Entrada,
    ValidarSolicitudCertificacionAforeSalida as Salida,
};
use crate::notificaciones::{self, NOTIFICAR};
use crate::servicio::ValidarSolicitudCertificacionAforeService as Servicio;

/// Prefix of the requests' keys.
const PREFIJO_CERTIFICACION: &str = "certificacion";
/// Response to a duplicate of a request in flight.
const DUPLICADA: &str = r#"{"resultadoOperacion":"02","diagnosticoProcesar":"532","tipoPrestacion":{"$request":"/tipoPrestacion"}}"#;

/// Policy for requests.
fn politica(lock_timeout: Duration) -> Result<Policy> {
    Ok(Policy::new(PREFIJO_CERTIFICACION)
        .methods([Method::POST])
        // Requests with the same body are the same request, from any caller: the document hashes the body and nothing else.
        .key(KeyFrom::Content)
        .no_principal()
        .in_flight(InFlight::Template(Template::new(200, DUPLICADA)?))
        .lease(lock_timeout)
        // "Se libera el bloqueo para permitir el procesamiento de futuras peticiones": no answer is kept.
        .ttl(Duration::ZERO)
        // A run that was lost has had no effect: all its writes are in one transaction with its end.
        .unknown(Unknown::Rerun))
}

struct Protegida {
    servicio: Servicio,
    turno: Turno,
}

/// Returns the endpoint, and the layer, which tracks the work in flight.
///
/// # Errors
/// None known.
pub fn router(servicio: Servicio, turno: Turno) -> Result<(Router, OnceLayer)> {
    let politica = politica(servicio.configuracion.lock_timeout)?;
    let una_vez = OnceLayer::new(turno.clone(), politica);
    let metodo = post(validar_solicitud_certificacion_afore)
        .route_layer(una_vez.clone())
        // Outermost: invalid requests never reach Turno, and Turno's errors are translated to the contract's format.
        .route_layer(middleware::from_fn(contrato::mantener));
    let router = Router::new()
        .route(RUTA, metodo)
        .with_state(Arc::new(Protegida { servicio, turno }));
    Ok((router, una_vez))
}

async fn validar_solicitud_certificacion_afore(
    State(protegida): State<Arc<Protegida>>,
    Extension(entrada): Extension<Arc<Entrada>>,
    Extension(intento): Extension<Attempt>,
) -> Response<Body> {
    tracing::info!(
        nss = entrada.nss,
        "Entrada validarSolicitudCertificacionAfore"
    );
    match protegida.procesar(&entrada, &intento).await {
        Ok(respuesta) => respuesta.map(Body::from),
        // This instance was inactive for longer than the lease, and another one took over the request. Nothing was written.
        Err(error) if es_tardia(&error) => {
            let salida = Json(Salida::rechazada(&entrada));
            (Extension(WorkOutcome::Undone), salida).into_response()
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "error en la aplicación");
            Json(Salida::error(Some(entrada.tipo_prestacion.clone()))).into_response()
        }
    }
}

impl Protegida {
    async fn procesar(&self, entrada: &Entrada, intento: &Attempt) -> Result<Response<Bytes>> {
        if !self.servicio.es_dia_habil()? {
            return respuesta(&Salida::rechazada(entrada));
        }
        let salida = self.servicio.validar(entrada).await;
        let respuesta = respuesta(&salida)?;
        let aviso = Event::from_json(NOTIFICAR, notificaciones::texto(entrada, &salida)?)
            .ordering_key(&entrada.nss)
            .correlation_id(intento.key());

        let mut tx = self.servicio.base.begin().await?;
        tx.guardar(entrada, intento.number(), &self.servicio.configuracion)
            .await?;
        match &mut tx {
            Tx::Postgres(tx) => {
                self.terminar(&mut **tx, &aviso, intento, &respuesta)
                    .await?
            }
            Tx::Sqlite(tx) => {
                self.terminar(&mut **tx, &aviso, intento, &respuesta)
                    .await?
            }
        }
        tx.commit().await?;
        Ok(respuesta)
    }

    /// Stores the notification and ends the request, in the transaction of the certification.
    async fn terminar(
        &self,
        tx: &mut impl Transaction,
        aviso: &Event,
        intento: &Attempt,
        respuesta: &Response<Bytes>,
    ) -> turno::Result<()> {
        self.turno.outbox().emit_in(tx, aviso).await?;
        // Last step: it fails if another run has taken over.
        intento.complete_in(tx, respuesta).await
    }
}

fn respuesta(salida: &Salida) -> Result<Response<Bytes>> {
    let respuesta = Response::builder().header(header::CONTENT_TYPE, "application/json");
    Ok(respuesta.body(serde_json::to_vec(salida)?.into())?)
}

fn es_tardia(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<turno::Error>()
        .is_some_and(turno::Error::is_lost)
}
