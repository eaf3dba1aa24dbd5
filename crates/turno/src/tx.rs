//! The caller's own transaction.
//!
//! What Turno writes or checks there commits together with the caller's own statements, or not at all. These types are
//! transactions:
//!
//! | type | feature |
//! |---|---|
//! | `tokio_postgres::Transaction`, `deadpool_postgres::Transaction` | `postgres` |
//! | `rusqlite::Transaction`, or [`SqliteTransaction`] in tasks that must be `Send`; on the database file that Turno uses | `sqlite` |
//! | `sqlx::Transaction<Postgres>`, `sqlx::PgConnection` | `sqlx-postgres` |
//! | `sqlx::Transaction<Sqlite>`, `sqlx::SqliteConnection` | `sqlx-sqlite` |
//! | [`AnyTransaction`]: one of them, for programs that run on either store | |
//! | `&mut` of each of them | |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("app.db");
//! let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
//! let lease = turno.lock("PRESTAMO/123").acquire().await?.acquired().ok_or("busy")?;
//!
//! let mut connection = rusqlite::Connection::open(&file)?;
//! connection.execute_batch("create table payment (amount text)")?;
//! let mut tx = connection.transaction()?;
//! tx.execute("insert into payment values ('100.00')", [])?;
//! lease.guard(&mut tx).await?; // last, before the commit
//! tx.commit()?;
//! # Ok(()) }
//! ```
//!
//! A function that takes any transaction is generic. Its future is `Send` if the transaction is:
//!
//! ```
//! use turno::outbox::Event;
//! use turno::tx::Transaction;
//!
//! async fn announce(turno: &turno::Turno, tx: &mut impl Transaction) -> turno::Result<()> {
//!     turno.inbox("mail").push_in(tx, "welcome").await?;
//!     turno.outbox().emit_in(tx, Event::new("CustomerCreatedEvent", &7)).await?;
//!     Ok(())
//! }
//! ```

mod any;
#[cfg(feature = "sqlite")]
mod rusqlite;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "postgres")]
mod tokio_postgres;

pub use self::any::AnyTransaction;
#[cfg(feature = "sqlite")]
pub use self::rusqlite::SqliteTransaction;
use self::sealed::Statements;

/// A transaction of the caller in which Turno can take part. See the [module](self) for the types.
///
/// The trait is sealed: Turno can only use the drivers that it knows.
pub trait Transaction: Statements {}

impl<T: Statements + ?Sized> Transaction for T {}

pub(crate) mod sealed {
    use uuid::Uuid;

    use crate::error::Result;
    use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

    /// What Turno does in a transaction of the caller. An error means that the caller must roll back.
    pub trait Statements {
        /// Fails if the token is stale. Otherwise no caller can take over the lock until the transaction ends.
        fn lock_guard(
            &mut self,
            resource: &str,
            token: Token,
        ) -> impl Future<Output = Result<()>> + Send;

        /// Stores items.
        fn inbox_push(
            &mut self,
            ask: &InboxPush,
        ) -> impl Future<Output = Result<Vec<PushedItem>>> + Send;

        /// Completes items. Stale claims are in the result.
        fn inbox_complete(
            &mut self,
            claims: &[ClaimId],
        ) -> impl Future<Output = Result<Settled>> + Send;

        /// Stores events. Returns their ids.
        fn outbox_emit(
            &mut self,
            events: &[NewEvent],
        ) -> impl Future<Output = Result<Vec<Uuid>>> + Send;

        /// Records that a consumer has processed an event. Returns true the first time.
        fn mark_processed(
            &mut self,
            consumer: &str,
            event: Uuid,
        ) -> impl Future<Output = Result<bool>> + Send;

        /// Ends a run with its answer. Fails if the claim is stale.
        fn once_complete(&mut self, ask: &OnceComplete) -> impl Future<Output = Result<()>> + Send;
    }

    impl<T: Statements + ?Sized> Statements for &mut T {
        fn lock_guard(
            &mut self,
            resource: &str,
            token: Token,
        ) -> impl Future<Output = Result<()>> + Send {
            (**self).lock_guard(resource, token)
        }

        fn inbox_push(
            &mut self,
            ask: &InboxPush,
        ) -> impl Future<Output = Result<Vec<PushedItem>>> + Send {
            (**self).inbox_push(ask)
        }

        fn inbox_complete(
            &mut self,
            claims: &[ClaimId],
        ) -> impl Future<Output = Result<Settled>> + Send {
            (**self).inbox_complete(claims)
        }

        fn outbox_emit(
            &mut self,
            events: &[NewEvent],
        ) -> impl Future<Output = Result<Vec<Uuid>>> + Send {
            (**self).outbox_emit(events)
        }

        fn mark_processed(
            &mut self,
            consumer: &str,
            event: Uuid,
        ) -> impl Future<Output = Result<bool>> + Send {
            (**self).mark_processed(consumer, event)
        }

        fn once_complete(&mut self, ask: &OnceComplete) -> impl Future<Output = Result<()>> + Send {
            (**self).once_complete(ask)
        }
    }
}

/// Implements [`Statements`] for a type that contains another transaction: `$self` becomes `$inner`, and each call is passed
/// on.
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
macro_rules! pass_on {
    ($type:ty, $self:ident => $inner:expr) => {
        impl Statements for $type {
            async fn lock_guard(&mut $self, resource: &str, token: Token) -> Result<()> {
                $inner.lock_guard(resource, token).await
            }

            async fn inbox_push(&mut $self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
                $inner.inbox_push(ask).await
            }

            async fn inbox_complete(&mut $self, claims: &[ClaimId]) -> Result<Settled> {
                $inner.inbox_complete(claims).await
            }

            async fn outbox_emit(&mut $self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
                $inner.outbox_emit(events).await
            }

            async fn mark_processed(&mut $self, consumer: &str, event: Uuid) -> Result<bool> {
                $inner.mark_processed(consumer, event).await
            }

            async fn once_complete(&mut $self, ask: &OnceComplete) -> Result<()> {
                $inner.once_complete(ask).await
            }
        }
    };
}
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
use pass_on;
