//! The document's `InboxRepository`: operations on one row, in a transaction.

use anyhow::Result;
use sqlx::{Postgres, Sqlite, Transaction};
use turno::inbox::Job;
use uuid::Uuid;

use crate::database::{Database, Presentation};

/// The document's key statement is this condition: `WHERE id = ?2 AND processed = false`.
///
/// The time comes from the database, not from the application's `LocalDateTime.now()`.
const TRY_MARK_AS_PROCESSING: &str = "
    update presentations
    set processed = true, processed_at = current_timestamp
    where id = $1
    and processed = false";

const MARK_AS_UNPROCESSED: &str = "
    update presentations
    set processed = false, processed_at = null
    where id = $1";

const IS_UNPROCESSED: &str = "
    select count(*)
    from presentations
    where id = $1
    and processed = false";

const LOCK_UNPROCESSED: &str = "
    select count(*)
    from (
        select id
        from presentations
        where id = $1
        and processed = false
        for update skip locked
    ) locked";

/// The repository inside one transaction, as `@Transactional` gives it to the use case.
#[derive(Debug)]
pub struct InboxRepository(Tx);

#[derive(Debug)]
enum Tx {
    Postgres(Transaction<'static, Postgres>),
    Sqlite(Transaction<'static, Sqlite>),
}

macro_rules! on_each {
    ($repository:expr, $tx:ident => $body:expr) => {
        match $repository.0 {
            Tx::Postgres(ref mut $tx) => $body,
            Tx::Sqlite(ref mut $tx) => $body,
        }
    };
}

impl InboxRepository {
    /// Begins a transaction.
    ///
    /// # Errors
    /// Returns an error if the database rejects it.
    pub async fn begin(database: &Database) -> Result<Self> {
        Ok(InboxRepository(match database {
            Database::Postgres(pool) => Tx::Postgres(pool.begin().await?),
            Database::Sqlite(pool) => Tx::Sqlite(pool.begin().await?),
        }))
    }

    /// Begins a transaction on one snapshot of the database. On SQLite, every transaction has one.
    ///
    /// # Errors
    /// Returns an error if the database rejects it.
    pub async fn begin_repeatable_read(database: &Database) -> Result<Self> {
        Ok(InboxRepository(match database {
            Database::Postgres(pool) => Tx::Postgres(
                pool.begin_with("begin isolation level repeatable read")
                    .await?,
            ),
            Database::Sqlite(pool) => Tx::Sqlite(pool.begin().await?),
        }))
    }

    /// `tryMarkAsProcessing`: returns 1 if this call has marked the row, 0 if it was marked already.
    ///
    /// # Errors
    /// Returns an error if the database rejects the statement.
    pub async fn try_mark_as_processing(&mut self, id: Uuid) -> Result<u64> {
        self.update(TRY_MARK_AS_PROCESSING, id).await
    }

    /// `markAsUnprocessed`: removes the mark after an error.
    ///
    /// # Errors
    /// Returns an error if the database rejects the statement.
    pub async fn mark_as_unprocessed(&mut self, id: Uuid) -> Result<()> {
        self.update(MARK_AS_UNPROCESSED, id).await.map(drop)
    }

    /// Returns whether the row is unprocessed in the snapshot of this transaction.
    ///
    /// # Errors
    /// Returns an error if the database rejects the query.
    pub async fn is_unprocessed(&mut self, id: Uuid) -> Result<bool> {
        self.any(IS_UNPROCESSED, id).await
    }

    /// Locks the row until the transaction ends, and returns true. Returns false if the row is processed or locked by another
    /// transaction. PostgreSQL only.
    ///
    /// # Errors
    /// Returns an error if the database rejects the query or does not support `skip locked`.
    pub async fn lock_unprocessed(&mut self, id: Uuid) -> Result<bool> {
        self.any(LOCK_UNPROCESSED, id).await
    }

    /// Completes Turno's item. The completion commits together with the rest of this transaction.
    ///
    /// # Errors
    /// Returns an error if another worker may have claimed the item.
    pub async fn complete(&mut self, job: &Job<Presentation>) -> Result<()> {
        on_each!(self, tx => job.complete_in(&mut **tx).await)?;
        Ok(())
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// Returns an error if the database rejects the commit.
    pub async fn commit(self) -> Result<()> {
        match self.0 {
            Tx::Postgres(tx) => tx.commit().await?,
            Tx::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable.
    pub async fn rollback(self) -> Result<()> {
        match self.0 {
            Tx::Postgres(tx) => tx.rollback().await?,
            Tx::Sqlite(tx) => tx.rollback().await?,
        }
        Ok(())
    }

    async fn update(&mut self, sql: &'static str, id: Uuid) -> Result<u64> {
        let id = id.to_string();
        Ok(on_each!(self, tx => {
            sqlx::query(sql).bind(id).execute(&mut **tx).await?.rows_affected()
        }))
    }

    async fn any(&mut self, sql: &'static str, id: Uuid) -> Result<bool> {
        let id = id.to_string();
        let count: i64 = on_each!(self, tx => {
            sqlx::query_scalar(sql).bind(id).fetch_one(&mut **tx).await
        })?;
        Ok(count > 0)
    }
}
