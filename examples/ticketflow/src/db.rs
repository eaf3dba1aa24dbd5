//! The application's database: PostgreSQL or SQLite, the same as Turno's store.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{PgPool, SqlitePool};
use turno::store::postgres::Target;

/// How long a transaction waits for other processes, in SQLite.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Connection pool.
#[derive(Debug, Clone)]
pub(crate) enum Db {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Begins a transaction and runs the same statements in it on either database. Without a commit, it is rolled back.
macro_rules! with_tx {
    ($db:expr, |$tx:ident| $body:expr) => {
        match $db {
            $crate::db::Db::Postgres(pool) => {
                let mut $tx = pool.begin().await?;
                $body
            }
            // SQLite has one writer. A transaction that requests it at the start waits; one that requests it later may fail.
            $crate::db::Db::Sqlite(pool) => {
                let mut $tx = pool.begin_with("begin immediate").await?;
                $body
            }
        }
    };
}

/// The same without a transaction, for a single statement.
macro_rules! with_pool {
    ($db:expr, |$pool:ident| $body:expr) => {
        match $db {
            $crate::db::Db::Postgres($pool) => $body,
            $crate::db::Db::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use {with_pool, with_tx};

impl Db {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let connect = async || -> Result<Self> {
            if url.starts_with("sqlite:") {
                let options = SqliteConnectOptions::from_str(url)?
                    .create_if_missing(true)
                    .busy_timeout(TIMEOUT);
                let pool = SqlitePoolOptions::new().max_connections(4);
                return Ok(Db::Sqlite(pool.connect_with(options).await?));
            }
            let options = Target::parse(url)?.sqlx_options()?;
            Ok(Db::Postgres(PgPool::connect_with(options).await?))
        };
        connect()
            .await
            .context("could not open the application's database")
    }

    /// Creates missing tables and, on PostgreSQL, views. Run it once, before any other process.
    pub(crate) async fn migrate(&self) -> Result<()> {
        let tables = include_str!("../sql/tables.sql");
        with_pool!(self, |pool| {
            sqlx::raw_sql(tables).execute(pool).await?;
        });
        if let Db::Postgres(pool) = self {
            sqlx::raw_sql(include_str!("../sql/views_postgres.sql"))
                .execute(pool)
                .await?;
        }
        Ok(())
    }
}
