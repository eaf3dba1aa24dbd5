//! One instance of the service.

use anyhow::{Context, Result};
use axum::Router;
use clap::Args;
use jiff::civil::Date;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use turno::lock::Sweep;
use turno::sink::{SinkOptions, from_url};
use turno::{Retry, Turno};

use crate::base::Base;
use crate::configuracion::Configuracion;
use crate::puerta::{Puerta, decir};
use crate::servicio::ValidarSolicitudCertificacionAforeService as Servicio;
use crate::{original, protegida};

/// How an instance is run.
#[derive(Debug, Args)]
pub struct Opciones {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:0")]
    escucha: String,
    /// Where notifications are posted
    #[arg(long, value_name = "URL")]
    avisos: String,
    /// The original implementation: without any of Turno
    #[arg(long)]
    sin_turno: bool,
    /// Another date than today's
    #[arg(long, value_name = "AAAA-MM-DD")]
    hoy: Option<Date>,
    /// Every certification waits for a line `sigue` on standard input
    #[arg(long)]
    a_mano: bool,
}

/// Turno with the document's settings.
///
/// # Errors
/// If the store cannot be opened.
pub async fn conectar(store: &str, configuracion: &Configuracion) -> Result<Turno> {
    let turno = Turno::builder()
        .ttl(configuracion.lock_timeout)
        .retry(Retry {
            max: configuracion.lock_retry_max,
            delay: configuracion.lock_retry_delay,
        })
        .service(&configuracion.service_name)
        .user(&configuracion.user_default)
        .connect(store);
    turno.await.context("the store")
}

/// Serves until it is told to stop; then what is under way comes to its end.
///
/// # Errors
/// If it cannot listen, or the database does not answer.
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

    // Turno first: it makes the file such that readers and writers do not wait for each other.
    let turno = conectar(store, &configuracion).await?;
    let base = Base::abrir(store).await?;
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

/// Sends the notifications that were committed, by this instance or by one that is no more.
async fn relevar(
    turno: Turno,
    avisos: String,
    configuracion: Configuracion,
    stop: CancellationToken,
) -> Result<()> {
    let opciones = SinkOptions {
        // The AFORE of the demonstration is on this machine.
        allow_private: true,
        source: Some(configuracion.service_name),
        ..SinkOptions::default()
    };
    let relevo = turno.outbox().relay(from_url(&avisos, &opciones)?);
    let hecho = relevo.lease(configuracion.lock_timeout).run(stop).await?;
    tracing::info!(?hecho, "notificaciones");
    Ok(())
}

/// `cleanupExpiredLocks`
async fn limpiar(turno: Turno, configuracion: Configuracion, stop: CancellationToken) {
    let Some(cada) = configuracion.lock_cleanup else {
        return;
    };
    let todo = Sweep::default();
    tokio::select! {
        () = stop.cancelled() => {}
        _ = turno.sweep_every(cada, &todo) => {}
    }
}
