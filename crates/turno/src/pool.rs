//! Connection pools of the caller.

use std::sync::Arc;

use crate::error::Result;
use crate::settings::Settings;
use crate::store::Store;
use crate::{Builder, Turno};

/// A connection pool that the application already has, for [`Turno::from_pool`]. Each pool converts into it.
#[derive(Clone)]
#[non_exhaustive]
pub enum Pool {
    /// A pool of deadpool. Turno uses its connections.
    #[cfg(feature = "postgres")]
    Deadpool(deadpool_postgres::Pool),
    /// A pool of sqlx on PostgreSQL. Turno opens its own connections to the same database.
    #[cfg(feature = "sqlx-postgres")]
    SqlxPostgres(sqlx::PgPool),
    /// A pool of sqlx on SQLite. Turno opens its own connections to the same file.
    #[cfg(feature = "sqlx-sqlite")]
    SqlxSqlite(sqlx::SqlitePool),
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the contents: they may hold a password.
        f.write_str("Pool")
    }
}

#[cfg(feature = "postgres")]
impl From<deadpool_postgres::Pool> for Pool {
    fn from(pool: deadpool_postgres::Pool) -> Self {
        Pool::Deadpool(pool)
    }
}

#[cfg(feature = "sqlx-postgres")]
impl From<sqlx::PgPool> for Pool {
    fn from(pool: sqlx::PgPool) -> Self {
        Pool::SqlxPostgres(pool)
    }
}

#[cfg(feature = "sqlx-sqlite")]
impl From<sqlx::SqlitePool> for Pool {
    fn from(pool: sqlx::SqlitePool) -> Self {
        Pool::SqlxSqlite(pool)
    }
}

impl Turno {
    /// Uses the database of a connection pool that the application already has, with the default settings.
    ///
    /// | pool | what Turno does with it |
    /// |---|---|
    /// | `deadpool_postgres::Pool` | takes a connection per call and gives it back. TLS, size and timeouts are those of the pool |
    /// | `sqlx::PgPool` | opens its own connections with the pool's connect options: host, user, password, database and TLS. Run-time parameters (`options`) are not copied |
    /// | `sqlx::SqlitePool` | opens its own connections to the pool's file. A database in memory is an error, because no other connection can see it |
    ///
    /// A pool of deadpool must allow:
    /// - a role that owns the schema `turno` or, with [`Migrate::Never`](crate::Migrate::Never), one with the role `turno_app`;
    /// - one connection per concurrent call: [`Settings::connections`](crate::Settings::connections) is not used;
    /// - transaction poolers are possible: Turno prepares no named statement, and keeps no state in a session.
    ///
    /// Without connections of its own, Turno does not listen for notifications: workers, relays and waiters poll, as they do
    /// behind a pooler. A call that times out cannot cancel its statement over TLS, so set `statement_timeout` and
    /// `lock_timeout` for the pool's connections. [`Turno::close`] leaves the pool open.
    ///
    /// # Errors
    /// As [`Turno::connect`].
    ///
    /// ```no_run
    /// # async fn example(pool: deadpool_postgres::Pool) -> turno::Result<()> {
    /// let turno = turno::Turno::from_pool(pool).await?;
    /// # Ok(()) }
    /// ```
    pub async fn from_pool(pool: impl Into<Pool>) -> Result<Self> {
        Turno::builder().from_pool(pool).await
    }
}

impl Builder {
    /// Uses the database of a connection pool that the application already has. See [`Turno::from_pool`].
    ///
    /// # Errors
    /// As [`Turno::connect`].
    pub async fn from_pool(self, pool: impl Into<Pool>) -> Result<Turno> {
        let store = open(pool.into(), self.given_settings()).await?;
        self.open(store).await
    }
}

async fn open(pool: Pool, settings: &Settings) -> Result<Arc<dyn Store>> {
    match pool {
        #[cfg(feature = "postgres")]
        Pool::Deadpool(pool) => {
            let store = crate::store::postgres::PostgresStore::from_pool(pool, settings).await?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "sqlx-postgres")]
        Pool::SqlxPostgres(pool) => {
            crate::turno::open(&postgres_url(&pool.connect_options()), settings).await
        }
        #[cfg(feature = "sqlx-sqlite")]
        Pool::SqlxSqlite(pool) => {
            let options = pool.connect_options();
            let file = options.get_filename();
            if !file.exists() {
                return Err(crate::Error::invalid(
                    "pool",
                    "the pool's database is in memory, or its file does not exist: use a file",
                ));
            }
            crate::turno::open(&format!("sqlite:{}", file.display()), settings).await
        }
    }
}

/// The pool's connect options as a URL, without what only sqlx understands.
#[cfg(feature = "sqlx-postgres")]
fn postgres_url(options: &sqlx::postgres::PgConnectOptions) -> String {
    const SQLX_ONLY: &str = "statement-cache-capacity=";
    use sqlx::ConnectOptions as _;

    let url = options.to_url_lossy();
    let (address, query) = url.as_str().split_once('?').unwrap_or((url.as_str(), ""));
    let query: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.starts_with(SQLX_ONLY))
        .collect();
    format!("{address}?{}", query.join("&"))
}
