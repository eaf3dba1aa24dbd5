//! One instance of the service.

use anyhow::{Context, Result};
use axum::Router;
use clap::Args;
use jiff::civil::Date;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use turno::sink::{SinkOptions, from_url};
use turno::{Retry, Turno};

use crate::base::Base;
use crate::configuracion::Configuracion;
use crate::puerta::{Puerta, decir};
use crate::servicio::ValidarSolicitudCertificacionAforeService as Servicio;
use crate::{original, protegida};

/// Options of an instance.
#[derive(Debug, Args)]
pub struct Opciones {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    escucha: String,
    /// URL that notifications are posted to
    #[arg(long, value_name = "URL")]
    avisos: String,
    /// Run the original implementation, without Turno
    #[arg(long)]
    sin_turno: bool,
    /// Date to use instead of today's
    #[arg(long, value_name = "AAAA-MM-DD")]
    hoy: Option<Date>,
    /// Each certification waits for a line `sigue` on standard input
    #[arg(long)]
    a_mano: bool,
}

/// Opens Turno with the settings of the document.
///
/// # Errors
/// Returns an error if the store cannot be opened.
pub async fn conectar(store: &str, configuracion: &Configuracion) -> Result<Turno> {
    let turno = Turno::builder()
        .ttl(configuracion.lock_timeout)
        .retry(Retry::new(
            configuracion.lock_retry_max,
            configuracion.lock_retry_delay,
        ))
        .service(&configuracion.service_name)
        .user(&configuracion.user_default)
        .connect(store);
    turno.await.context("the store")
}

/// Serves until a shutdown signal, then waits for requests in flight to end.
///
/// # Errors
/// Returns an error if the address cannot be bound or the database is unavailable.
pub async fn servir(opciones: Opciones, store: &str, configuracion: Configuracion) -> Result<()> {
    let puerta = match opciones.a_mano {
        true => Puerta::a_mano(),
        false => Puerta::abierta(),
    };
    if opciones.sin_turno {
        let base = Base::abrir(store).await?;
        let servicio = Servicio::nuevo(base, configuracion, opciones.hoy, puerta)?;
        let router = original::router(servicio, opciones.avisos);
        return escuchar(&opciones.escucha, router).await;
    }

    // Open Turno first: it sets the mode of the file in which readers and writers do not block each other.
    let turno = conectar(store, &configuracion).await?;
    let base = Base::abrir(store).await?;
    base.crear_vista().await?;
    let stop = CancellationToken::new();
    let relevo = tokio::spawn(relevar(
        turno.clone(),
        opciones.avisos,
        configuracion.clone(),
        stop.clone(),
    ));
    let limpieza = tokio::spawn(limpiar(turno.clone(), configuracion.clone(), stop.clone()));
    let servicio = Servicio::nuevo(base, configuracion, opciones.hoy, puerta)?;
    let (router, una_vez) = protegida::router(servicio, turno.clone())?;
    escuchar(&opciones.escucha, router).await?;
    una_vez.idle().await;
    stop.cancel();
    limpieza.await?;
    relevo.await??;
    turno.close().await;
    Ok(())
}

async fn escuchar(escucha: &str, router: Router) -> Result<()> {
    let listener = TcpListener::bind(escucha).await?;
    let mut term = signal(SignalKind::terminate())?;
    decir(&format!("escucha {}", listener.local_addr()?));
    let fin = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let servidor = axum::serve(listener, router).with_graceful_shutdown(fin);
    Ok(servidor.await?)
}

/// Sends committed notifications, including those of instances that have stopped.
async fn relevar(
    turno: Turno,
    avisos: String,
    configuracion: Configuracion,
    stop: CancellationToken,
) -> Result<()> {
    let mut opciones = SinkOptions::default();
    // In the demonstration, the AFORE runs on this machine.
    opciones.allow_private = true;
    opciones.source = Some(configuracion.service_name);
    let relevo = turno.outbox().relay(from_url(&avisos, &opciones)?);
    let hecho = relevo
        .lease(configuracion.lock_timeout)
        .run(stop.cancelled_owned())
        .await?;
    tracing::info!(?hecho, "notificaciones");
    Ok(())
}

/// `cleanupExpiredLocks`: sweeps expired locks until the instance stops.
async fn limpiar(turno: Turno, configuracion: Configuracion, stop: CancellationToken) {
    let Some(cada) = configuracion.lock_cleanup else {
        return;
    };
    let sweeper = turno.sweeper().every(cada);
    sweeper.run(stop.cancelled_owned()).await;
}
