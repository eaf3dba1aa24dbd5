//! The service's own database of certifications, on PostgreSQL or SQLite. It does not use Turno.

use std::time::Duration;

use anyhow::Result;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, Transaction};
use turno::store::postgres::Target;

use crate::configuracion::Configuracion;
use crate::contrato::ValidarSolicitudCertificacionAforeEntrada;

/// How long a transaction waits for the writer of another process (SQLite has one writer at a time).
const PACIENCIA: Duration = Duration::from_secs(30);
/// Stores a certification. `$1` nss, `$2` curp, `$3` tipoPrestacion, `$4` the request, `$5` the attempt, `$6` user, `$7` service.
const GUARDAR: &str = "\
    insert into TB_NSAR_CERTIFICACION \
        (CH_NSS, CH_CURP, CH_TIPO_PRESTACION, TX_ENTRADA, NU_INTENTO, CH_USUARIO_MODIFICADOR, CH_NOMBRE_SERVICIO) \
    values ($1, $2, $3, $4, $5, $6, $7)";
const CONTAR: &str = "select count(*) from TB_NSAR_CERTIFICACION";

/// Connection pool of the service.
#[derive(Debug, Clone)]
pub enum Base {
    /// `postgres://…`
    Postgres(PgPool),
    /// `sqlite:FILE`
    Sqlite(SqlitePool),
}

/// Transaction of the service.
pub enum Tx {
    /// On PostgreSQL.
    Postgres(Transaction<'static, Postgres>),
    /// On SQLite.
    Sqlite(Transaction<'static, Sqlite>),
}

impl Base {
    /// Connects, and creates the table if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn abrir(url: &str) -> Result<Self> {
        let Some(archivo) = url.strip_prefix("sqlite:") else {
            let opciones = Target::parse(url)?.sqlx_options()?;
            let pool = PgPoolOptions::new().max_connections(8);
            let pool = pool.connect_with(opciones).await?;
            sqlx::raw_sql(include_str!("../sql/tablas.postgres.sql"))
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
        sqlx::raw_sql(include_str!("../sql/tablas.sqlite.sql"))
            .execute(&pool)
            .await?;
        Ok(Self::Sqlite(pool))
    }

    /// Creates `TB_NSAR_BLOQUEO_DISTRIBUIDO`, a view of Turno's locks and requests in flight with the columns of the document.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable, or has no schema of Turno.
    pub async fn crear_vista(&self) -> Result<()> {
        match self {
            Self::Postgres(pool) => {
                let vista = sqlx::raw_sql(include_str!("../sql/bloqueos.postgres.sql"));
                vista.execute(pool).await.map(drop)?;
            }
            Self::Sqlite(pool) => {
                let vista = sqlx::raw_sql(include_str!("../sql/bloqueos.sqlite.sql"));
                vista.execute(pool).await.map(drop)?;
            }
        }
        Ok(())
    }

    /// Begins a transaction that will write.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn begin(&self) -> Result<Tx> {
        Ok(match self {
            Self::Postgres(pool) => Tx::Postgres(pool.begin().await?),
            // `immediate`: in SQLite, a transaction that has read cannot write any more if another one wrote in between.
            Self::Sqlite(pool) => Tx::Sqlite(pool.begin_with("begin immediate").await?),
        })
    }

    /// Returns the number of certifications.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn contar(&self) -> Result<i64> {
        Ok(match self {
            Self::Postgres(pool) => sqlx::query_scalar(CONTAR).fetch_one(pool).await?,
            Self::Sqlite(pool) => sqlx::query_scalar(CONTAR).fetch_one(pool).await?,
        })
    }
}

impl Tx {
    /// Stores a certification, the result of run number `intento`.
    ///
    /// # Errors
    /// Returns an error if the database rejects it.
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

    /// Commits the transaction.
    ///
    /// # Errors
    /// Returns an error if the database rejects the commit.
    pub async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(tx) => tx.commit().await?,
            Self::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }
}
