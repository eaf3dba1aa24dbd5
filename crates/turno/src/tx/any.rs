//! One transaction type for programs that run on either store.

use uuid::Uuid;

use super::sealed::Statements;
use crate::error::{Error, Kind, Result};
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

/// A transaction of any driver, for programs that run on SQLite as well as on PostgreSQL. It is `Send`.
///
/// Each transaction converts into it, except `rusqlite::Transaction`, which is not `Send`:
/// [`SqliteTransaction`](super::SqliteTransaction) takes its place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// use turno::tx::{AnyTransaction, SqliteTransaction};
///
/// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
/// let mut connection = rusqlite::Connection::open(&file)?;
/// let mut tx = AnyTransaction::from(SqliteTransaction::begin(&mut connection)?);
/// turno.inbox("mail").push_in(&mut tx, "welcome").await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[non_exhaustive]
#[must_use = "dropping a transaction rolls it back"]
pub enum AnyTransaction<'t> {
    /// A transaction of rusqlite.
    #[cfg(feature = "sqlite")]
    Sqlite(super::SqliteTransaction<'t>),
    /// A transaction of tokio-postgres.
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Transaction<'t>),
    /// A transaction of a pool of deadpool.
    #[cfg(feature = "postgres")]
    Deadpool(deadpool_postgres::Transaction<'t>),
    /// A transaction of sqlx on PostgreSQL.
    #[cfg(feature = "sqlx-postgres")]
    SqlxPostgres(sqlx::Transaction<'t, sqlx::Postgres>),
    /// A transaction of sqlx on SQLite.
    #[cfg(feature = "sqlx-sqlite")]
    SqlxSqlite(sqlx::Transaction<'t, sqlx::Sqlite>),
    /// Keeps the lifetime in use when no driver is enabled. It has no value.
    #[doc(hidden)]
    Never(std::convert::Infallible, std::marker::PhantomData<&'t ()>),
}

impl std::fmt::Debug for AnyTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyTransaction")
    }
}

macro_rules! convert_from {
    ($($(#[$feature:meta])* $variant:ident($type:ty);)*) => {
        $(
            $(#[$feature])*
            impl<'t> From<$type> for AnyTransaction<'t> {
                fn from(tx: $type) -> Self {
                    AnyTransaction::$variant(tx)
                }
            }
        )*
    };
}

convert_from! {
    #[cfg(feature = "sqlite")]
    Sqlite(super::SqliteTransaction<'t>);
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Transaction<'t>);
    #[cfg(feature = "postgres")]
    Deadpool(deadpool_postgres::Transaction<'t>);
    #[cfg(feature = "sqlx-postgres")]
    SqlxPostgres(sqlx::Transaction<'t, sqlx::Postgres>);
    #[cfg(feature = "sqlx-sqlite")]
    SqlxSqlite(sqlx::Transaction<'t, sqlx::Sqlite>);
}

impl AnyTransaction<'_> {
    /// Commits.
    ///
    /// # Errors
    /// Returns an error if the database fails. If its connection was lost, the transaction may have been committed.
    pub async fn commit(self) -> Result<()> {
        match self {
            #[cfg(feature = "sqlite")]
            AnyTransaction::Sqlite(tx) => tx.commit(),
            #[cfg(feature = "postgres")]
            AnyTransaction::Postgres(tx) => tx.commit().await.map_err(failed),
            #[cfg(feature = "postgres")]
            AnyTransaction::Deadpool(tx) => tx.commit().await.map_err(failed),
            #[cfg(feature = "sqlx-postgres")]
            AnyTransaction::SqlxPostgres(tx) => tx.commit().await.map_err(failed),
            #[cfg(feature = "sqlx-sqlite")]
            AnyTransaction::SqlxSqlite(tx) => tx.commit().await.map_err(failed),
            AnyTransaction::Never(never, _) => match never {},
        }
    }

    /// Rolls back.
    ///
    /// # Errors
    /// Returns an error if the database fails. The transaction is not committed.
    pub async fn rollback(self) -> Result<()> {
        match self {
            #[cfg(feature = "sqlite")]
            AnyTransaction::Sqlite(tx) => tx.rollback(),
            #[cfg(feature = "postgres")]
            AnyTransaction::Postgres(tx) => tx.rollback().await.map_err(failed),
            #[cfg(feature = "postgres")]
            AnyTransaction::Deadpool(tx) => tx.rollback().await.map_err(failed),
            #[cfg(feature = "sqlx-postgres")]
            AnyTransaction::SqlxPostgres(tx) => tx.rollback().await.map_err(failed),
            #[cfg(feature = "sqlx-sqlite")]
            AnyTransaction::SqlxSqlite(tx) => tx.rollback().await.map_err(failed),
            AnyTransaction::Never(never, _) => match never {},
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused(
        Kind::Unavailable,
        format!("the transaction could not be ended ({error}): repeat it if it was not committed"),
        error,
    )
}

macro_rules! in_each_driver {
    ($self:ident, $tx:ident => $call:expr) => {
        match $self {
            #[cfg(feature = "sqlite")]
            AnyTransaction::Sqlite($tx) => $call.await,
            #[cfg(feature = "postgres")]
            AnyTransaction::Postgres($tx) => $call.await,
            #[cfg(feature = "postgres")]
            AnyTransaction::Deadpool($tx) => $call.await,
            #[cfg(feature = "sqlx-postgres")]
            AnyTransaction::SqlxPostgres($tx) => $call.await,
            #[cfg(feature = "sqlx-sqlite")]
            AnyTransaction::SqlxSqlite($tx) => $call.await,
            AnyTransaction::Never(never, _) => match *never {},
        }
    };
}

impl Statements for AnyTransaction<'_> {
    async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
        in_each_driver!(self, tx => tx.lock_guard(resource, token))
    }

    async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        in_each_driver!(self, tx => tx.inbox_push(ask))
    }

    async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
        in_each_driver!(self, tx => tx.inbox_complete(claims))
    }

    async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
        in_each_driver!(self, tx => tx.outbox_emit(events))
    }

    async fn mark_processed(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
        in_each_driver!(self, tx => tx.mark_processed(consumer, event))
    }

    async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
        in_each_driver!(self, tx => tx.once_complete(ask))
    }
}
