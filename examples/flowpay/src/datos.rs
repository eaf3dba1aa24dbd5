//! The database: FlowPay's own tables, on SQLite or PostgreSQL, beside Turno's.
//!
//! Every statement is written once and runs on both: both support `$1` and `returning`. The differences, the definition of the
//! tables and the begin of a transaction, are in this file.

mod escritura;
mod lectura;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{Postgres, Sqlite, Transaction};
use turno::Turno;
use turno::lock::{Lease, LeaseId};
use turno::store::postgres::Target;

pub use self::escritura::NuevaCuota;
use crate::fallo::Fallo;

/// Size of an instance's connection pool.
const CONEXIONES: u32 = 4;
/// How long a transaction waits for SQLite's single writer.
const PACIENCIA: Duration = Duration::from_secs(30);

/// Connection pool of the database.
#[derive(Debug, Clone)]
pub enum Base {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A transaction on either database.
pub enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

/// Runs an expression on the connection of the transaction, on either database.
macro_rules! en {
    ($tx:expr, $conexion:ident => $consulta:expr) => {
        match $tx {
            $crate::datos::Tx::Sqlite(tx) => {
                let $conexion = &mut **tx;
                $consulta
            }
            $crate::datos::Tx::Postgres(tx) => {
                let $conexion = &mut **tx;
                $consulta
            }
        }
    };
}
use en;

impl Base {
    /// Opens the database that Turno uses, and creates missing tables.
    pub async fn abrir(url: &str, turno: &Turno) -> Result<Self> {
        let base = match url.strip_prefix("sqlite:") {
            Some(":memory:") => bail!("flowpay needs a file, for its connections to share"),
            Some(archivo) => {
                let archivo = archivo.strip_prefix("//").unwrap_or(archivo);
                let opciones = SqliteConnectOptions::new()
                    .filename(archivo)
                    .busy_timeout(PACIENCIA);
                let pool = SqlitePoolOptions::new().max_connections(CONEXIONES);
                Base::Sqlite(pool.connect_with(opciones).await?)
            }
            None => {
                let pool = PgPoolOptions::new().max_connections(CONEXIONES);
                let opciones = Target::parse(url)?.sqlx_options()?;
                Base::Postgres(pool.connect_with(opciones).await?)
            }
        };
        // Instances that start at the same time would conflict: `create table if not exists` takes no lock.
        turno
            .lock("flowpay/tablas")
            .wait(PACIENCIA)
            .run(async |_| base.crear_tablas().await)
            .await
            .map_err(|error| anyhow::anyhow!("{error}"))
            .context("the tables could not be made")?;
        Ok(base)
    }

    async fn crear_tablas(&self) -> Result<(), sqlx::Error> {
        match self {
            Base::Sqlite(pool) => {
                let tablas = sqlx::raw_sql(include_str!("../sql/sqlite.sql"));
                tablas.execute(pool).await.map(drop)
            }
            Base::Postgres(pool) => {
                let tablas = sqlx::raw_sql(include_str!("../sql/postgres.sql"));
                tablas.execute(pool).await.map(drop)
            }
        }
    }

    /// Adds users until there are this many, for demonstrations and tests.
    pub async fn crear_usuarios(&self, minimo: u32, turno: &Turno) -> Result<()> {
        let crear = async |_: &Lease| -> Result<(), Fallo> {
            let faltan = i64::from(minimo) - self.leer().await?.usuarios().await?;
            let mut tx = self.escribir().await?;
            for numero in 0..faltan {
                tx.insertar_usuario(&format!("Usuario de ejemplo {}", numero + 1))
                    .await?;
            }
            tx.confirmar(None).await
        };
        // One instance at a time, so that each finds those of the others.
        let creados = turno
            .lock("flowpay/usuarios")
            .wait(PACIENCIA)
            .run(crear)
            .await;
        creados.map_err(|error| anyhow::anyhow!("the users could not be made: {error:?}"))
    }

    /// Begins a read-only transaction on a consistent snapshot.
    pub async fn leer(&self) -> Result<Tx, Fallo> {
        Ok(match self {
            Base::Sqlite(pool) => Tx::Sqlite(pool.begin().await?),
            Base::Postgres(pool) => {
                let un_momento = "begin isolation level repeatable read read only";
                Tx::Postgres(pool.begin_with(un_momento).await?)
            }
        })
    }

    /// Begins a transaction that writes. Keep it short: SQLite has one writer at a time, and Turno's renewals need it too.
    pub async fn escribir(&self) -> Result<Tx, Fallo> {
        Ok(match self {
            // Immediate: a transaction that begins with a read can fail at its first write, if another one has written
            // meanwhile.
            Base::Sqlite(pool) => Tx::Sqlite(pool.begin_with("begin immediate").await?),
            Base::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    pub async fn cerrar(&self) {
        match self {
            Base::Sqlite(pool) => pool.close().await,
            Base::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    /// Commits if the lock is still held; if not, rolls back the whole transaction.
    ///
    /// This is the fencing. The guard is the last statement: from there to the commit, no other caller can take over the lock.
    /// So a holder that was paused for longer than its lease cannot write values computed from outdated reads. All writes
    /// under a lock end here.
    pub async fn confirmar(mut self, idlock: Option<&LeaseId>) -> Result<(), Fallo> {
        if let Some(idlock) = idlock {
            en!(&mut self, db => turno::lock::guard(db, idlock).await)?;
        }
        match self {
            Tx::Sqlite(tx) => tx.commit().await?,
            Tx::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}
