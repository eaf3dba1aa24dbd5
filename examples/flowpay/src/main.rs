//! FlowPay: loans and payments behind a GraphQL API. Several instances share one database.
//!
//! Without arguments it shows what happens when three instances get the same payment at once, without the lock and with it.

mod cita;
mod consulta;
mod datos;
mod demostracion;
mod ensayo;
mod estado;
mod fallo;
mod locks;
mod mantenimiento;
mod monto;
mod mutacion;
mod prestamos;
mod recurso;
mod servir;
mod tipos;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::locks::{LIMPIEZA, Proteccion};

/// Préstamos y pagos, con locks lógicos sobre Turno.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// La base de datos: sqlite:ARCHIVO o postgres://… [por defecto: un archivo en una carpeta temporal]
    #[arg(long, global = true, env = "FLOWPAY_STORE")]
    store: Option<String>,
    #[command(subcommand)]
    comando: Option<Comando>,
}

#[derive(Debug, Subcommand)]
enum Comando {
    /// Una instancia: la API GraphQL en http://127.0.0.1:PUERTO/graphql
    Servir(ServirArgs),
    /// Limpia los locks expirados, para un cron job.
    Limpiar,
    /// Dice si un préstamo está bloqueado, por quién y hasta cuándo.
    Verificar {
        /// El préstamo.
        idprestamo: i64,
    },
}

/// Options of an instance.
#[derive(Debug, Args)]
pub struct ServirArgs {
    /// El puerto; 0 es cualquiera que esté libre.
    #[arg(long, default_value_t = 4000)]
    puerto: u16,
    /// Sin ningún lock, para ver el problema.
    #[arg(long, conflicts_with = "sin_guard")]
    sin_lock: bool,
    /// Con lock, pero sin presentarlo al confirmar cada transacción, para ver por qué hace falta.
    #[arg(long)]
    sin_guard: bool,
    /// Cuánto dura cada lock, en lugar de lo que pide cada operación.
    #[arg(long, value_name = "SEGUNDOS")]
    timeout_segundos: Option<u64>,
    /// Cada cuánto se limpian los locks expirados.
    #[arg(long, value_name = "SEGUNDOS", default_value_t = LIMPIEZA.as_secs())]
    limpiar_cada: u64,
    /// Cuántos usuarios debe haber al menos; los que faltan se crean (solo para demostraciones).
    #[arg(long, value_name = "CUANTOS", default_value_t = 0)]
    usuarios: u32,
    /// A quién avisar, y esperar, entre la lectura y la escritura de cada operación (solo para demostraciones).
    #[arg(long, value_name = "HOST:PUERTO")]
    cita: Option<String>,
}

impl ServirArgs {
    fn proteccion(&self) -> Proteccion {
        if self.sin_lock {
            Proteccion::SinLock
        } else if self.sin_guard {
            Proteccion::SinGuard
        } else {
            Proteccion::Completa
        }
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout_segundos.map(Duration::from_secs)
    }

    fn limpieza(&self) -> Duration {
        Duration::from_secs(self.limpiar_cada.max(1))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| "flowpay=info,warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let cli = Cli::parse();
    // The folder is kept until the end, and is then deleted with its content.
    let (_carpeta, store) = match cli.store {
        Some(store) => (None, store),
        None => {
            let carpeta = tempfile::tempdir()?;
            let archivo = carpeta.path().join("flowpay.db");
            (Some(carpeta), format!("sqlite:{}", archivo.display()))
        }
    };
    match cli.comando {
        Some(Comando::Servir(args)) => servir::servir(&store, args).await,
        Some(Comando::Limpiar) => mantenimiento::limpiar(&store).await,
        Some(Comando::Verificar { idprestamo }) => {
            mantenimiento::verificar(&store, idprestamo).await
        }
        None => demostracion::demostrar(&store).await,
    }
}
