//! `rusqlite::Transaction`, and a transaction of rusqlite that is `Send`.

use std::future::ready;
use std::ops::Deref;

use rusqlite::Connection;
use uuid::Uuid;

use super::sealed::Statements;
use crate::error::Result;
use crate::store::sqlite::{caller, classify};
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

/// A transaction on a connection of rusqlite. In contrast to `rusqlite::Transaction` it is `Send`, so that a task that is
/// spawned can hold it across an `await`. Dropped without [`commit`](SqliteTransaction::commit), it rolls back.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// use turno::tx::SqliteTransaction;
///
/// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
/// let mut connection = rusqlite::Connection::open(&file)?;
/// let mut tx = SqliteTransaction::begin(&mut connection)?;
/// tx.execute("create table customer (id integer primary key)", [])?;
/// turno.inbox("mail").push_in(&mut tx, "welcome").await?;
/// tx.commit()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a transaction rolls it back"]
pub struct SqliteTransaction<'c> {
    connection: &'c mut Connection,
}

impl<'c> SqliteTransaction<'c> {
    /// Begins a transaction that writes (`begin immediate`).
    ///
    /// # Errors
    /// Returns an error if the database is locked for longer than the connection's busy timeout, or cannot be written.
    pub fn begin(connection: &'c mut Connection) -> Result<Self> {
        connection
            .execute_batch("begin immediate")
            .map_err(classify)?;
        Ok(SqliteTransaction { connection })
    }

    /// Commits.
    ///
    /// # Errors
    /// Returns an error if the database fails. The transaction is rolled back.
    pub fn commit(self) -> Result<()> {
        self.connection.execute_batch("commit").map_err(classify)
    }

    /// Rolls back.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// use turno::tx::SqliteTransaction;
    ///
    /// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&file)?;
    /// let mut tx = SqliteTransaction::begin(&mut connection)?;
    /// turno.inbox("mail").push_in(&mut tx, "welcome").await?;
    /// tx.rollback()?;
    /// assert!(turno.inbox("mail").stats().await.unwrap_err().is_no_queue()); // nothing was pushed
    /// # Ok(()) }
    /// ```
    pub fn rollback(self) -> Result<()> {
        self.connection.execute_batch("rollback").map_err(classify)
    }
}

impl Deref for SqliteTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for SqliteTransaction<'_> {
    fn drop(&mut self) {
        // SQLite rolls back by itself after some errors, and is in autocommit mode then.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            tracing::warn!(%error, "a transaction could not be rolled back");
        }
    }
}

/// The statements run at once, in the caller's thread: the futures are ready, and hold no reference to the connection, which
/// is not `Sync`.
macro_rules! statements_of {
    ($type:ty) => {
        impl Statements for $type {
            fn lock_guard(
                &mut self,
                resource: &str,
                token: Token,
            ) -> impl Future<Output = Result<()>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::lock_guard(&mut session, resource, token).await
                }))
            }

            fn inbox_push(
                &mut self,
                ask: &InboxPush,
            ) -> impl Future<Output = Result<Vec<PushedItem>>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::inbox_push(&mut session, ask).await
                }))
            }

            fn inbox_complete(
                &mut self,
                claims: &[ClaimId],
            ) -> impl Future<Output = Result<Settled>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::inbox_complete(&mut session, claims).await
                }))
            }

            fn outbox_emit(
                &mut self,
                events: &[NewEvent],
            ) -> impl Future<Output = Result<Vec<Uuid>>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::outbox_emit(&mut session, events).await
                }))
            }

            fn mark_processed(
                &mut self,
                consumer: &str,
                event: Uuid,
            ) -> impl Future<Output = Result<bool>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::mark_processed(&mut session, consumer, event).await
                }))
            }

            fn once_complete(
                &mut self,
                ask: &OnceComplete,
            ) -> impl Future<Output = Result<()>> + Send {
                ready(caller::now(self, |mut session| async move {
                    caller::once_complete(&mut session, ask).await
                }))
            }
        }
    };
}

statements_of!(rusqlite::Transaction<'_>);
statements_of!(SqliteTransaction<'_>);
