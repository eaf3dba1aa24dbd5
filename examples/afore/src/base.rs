//! The service's own database: certifications, on PostgreSQL or SQLite. Turno is not needed here.

use std::time::Duration;

use anyhow::Result;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, Transaction};
use turno::store::postgres::Target;

use crate::configuracion::Configuracion;
use crate::contrato::ValidarSolicitudCertificacionAforeEntrada;

/// How long a transaction waits for those of other processes, where only one can write.
const PACIENCIA: Duration = Duration::from_secs(30);
const GUARDAR: &str = include_str!("sql/guardar.sql");
const CONTAR: &str = "select count(*) from TB_NSAR_CERTIFICACION";

/// Connections.
#[derive(Debug, Clone)]
pub enum Base {
    /// `postgres://…`
    Postgres(PgPool),
    /// `sqlite:FILE`
    Sqlite(SqlitePool),
}

/// A transaction of this service's own.
pub enum Tx {
    /// On PostgreSQL.
    Postgres(Transaction<'static, Postgres>),
    /// On SQLite.
    Sqlite(Transaction<'static, Sqlite>),
}

impl Base {
    /// Connects, and makes the table if it is not there.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn abrir(url: &str) -> Result<Self> {
        let Some(archivo) = url.strip_prefix("sqlite:") else {
            let opciones = Target::parse(url)?.sqlx_options()?;
            let pool = PgPoolOptions::new().max_connections(8);
            let pool = pool.connect_with(opciones).await?;
            sqlx::raw_sql(include_str!("sql/tablas.postgres.sql"))
                .execute(&pool)
                .await?;
            return Ok(Self::Postgres(pool));
        };
        let archivo = SqliteConnectOptions::new()
            .filename(archivo)
            .create_if_missing(true)
            .busy_timeout(PACIENCIA);
        let pool = SqlitePoolOptions::new().max_connections(4);
        let pool = pool.connect_with(archivo).await?;
        sqlx::raw_sql(include_str!("sql/tablas.sqlite.sql"))
            .execute(&pool)
            .await?;
        Ok(Self::Sqlite(pool))
    }

    /// Begins a transaction that is going to write.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn begin(&self) -> Result<Tx> {
        Ok(match self {
            Self::Postgres(pool) => Tx::Postgres(pool.begin().await?),
            // SQLite lets nobody write who has read before somebody else wrote.
            Self::Sqlite(pool) => Tx::Sqlite(pool.begin_with("begin immediate").await?),
        })
    }

    /// How many certifications there are.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn contar(&self) -> Result<i64> {
        Ok(match self {
            Self::Postgres(pool) => sqlx::query_scalar(CONTAR).fetch_one(pool).await?,
            Self::Sqlite(pool) => sqlx::query_scalar(CONTAR).fetch_one(pool).await?,
        })
    }
}

impl Tx {
    /// Stores a certification, the work of the `intento`-th run.
    ///
    /// # Errors
    /// If the database refuses it.
    pub async fn guardar(
        &mut self,
        entrada: &ValidarSolicitudCertificacionAforeEntrada,
        intento: u32,
        configuracion: &Configuracion,
    ) -> Result<()> {
        macro_rules! guardar {
            ($tx:expr) => {
                sqlx::query(GUARDAR)
                    .bind(&entrada.nss)
                    .bind(&entrada.curp)
                    .bind(&entrada.tipo_prestacion)
                    .bind(entrada.texto.get())
                    .bind(i64::from(intento))
                    .bind(&configuracion.user_default)
                    .bind(&configuracion.service_name)
                    .execute(&mut **$tx)
                    .await
                    .map(drop)?
            };
        }
        match self {
            Self::Postgres(tx) => guardar!(tx),
            Self::Sqlite(tx) => guardar!(tx),
        }
        Ok(())
    }

    /// Commits.
    ///
    /// # Errors
    /// If the database refuses.
    pub async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(tx) => tx.commit().await?,
            Self::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }
}
