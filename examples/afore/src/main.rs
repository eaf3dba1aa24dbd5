//! Request de-duplication: identical AFORE certification requests that reach several instances at once.
//!
//! `cargo run -p afore` runs the demonstration; `README.md` explains it.
#![forbid(unsafe_code)]

mod base;
mod calendario;
mod cliente;
mod concurrencia;
mod configuracion;
mod contrato;
mod demostracion;
mod instancia;
mod notificaciones;
mod original;
mod protegida;
mod puerta;
mod receptor;
mod servicio;

use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::concurrencia::ConcurrencyService;
use crate::configuracion::Configuracion;
use crate::puerta::{Puerta, decir};

/// AFORE certification requests, each processed by one instance at a time.
#[derive(Debug, Parser)]
#[command(name = "afore")]
struct Linea {
    /// The store: `sqlite:FILE` or `postgres://…`. Default for the demonstration: a temporary file
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// File to use instead of the built-in application.properties
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    papel: Option<Papel>,
}

/// Role of this process. Default: the demonstration.
#[derive(Debug, Subcommand)]
enum Papel {
    /// An instance of the service
    Instancia(instancia::Opciones),
    /// The AFORE that is notified: counts the notifications it receives
    Receptor {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1:0")]
        escucha: String,
        /// Exit when standard input ends
        #[arg(long)]
        a_mano: bool,
    },
    /// ConcurrencyService.executeWithLock: holds a lock until a line comes on standard input
    ExecuteWithLock {
        /// Resource to lock
        resource_id: String,
    },
    /// ConcurrencyService.isResourceLocked
    IsResourceLocked {
        /// Resource to query
        resource_id: String,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let filtro = EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filtro.unwrap_or_else(|_| EnvFilter::new("error,afore=warn")))
        .with_writer(io::stderr)
        .init();
    let Linea {
        store,
        config,
        papel,
    } = Linea::parse();
    let abrir = || -> Result<_> {
        let store = store.as_deref().context("--store URL is missing")?;
        Ok((store, Configuracion::leer(config.as_deref())?))
    };
    match papel {
        None => demostracion::mostrar(store).await,
        Some(Papel::Receptor { escucha, a_mano }) => {
            let _fin = a_mano.then(Puerta::a_mano);
            receptor::servir(&escucha).await
        }
        Some(Papel::Instancia(opciones)) => {
            let (store, configuracion) = abrir()?;
            instancia::servir(opciones, store, configuracion).await
        }
        Some(Papel::ExecuteWithLock { resource_id }) => {
            let (store, configuracion) = abrir()?;
            let servicio =
                ConcurrencyService::nuevo(instancia::conectar(store, &configuracion).await?);
            let hecho = servicio.execute_with_lock(&resource_id, async |lease| {
                decir(&format!("adquirido {}", lease.token()));
                let linea = tokio::task::spawn_blocking(|| io::stdin().lines().next());
                let linea = linea.await?.transpose()?;
                ensure!(linea.as_deref() != Some("falla"), "the action has failed");
                Ok("liberado")
            });
            decir(hecho.await?.unwrap_or("null"));
            Ok(())
        }
        Some(Papel::IsResourceLocked { resource_id }) => {
            let (store, configuracion) = abrir()?;
            let servicio =
                ConcurrencyService::nuevo(instancia::conectar(store, &configuracion).await?);
            decir(&servicio.is_resource_locked(&resource_id).await?.to_string());
            Ok(())
        }
    }
}
