//! The caller's own transaction.
//!
//! What Turno writes or checks there commits together with what you write, or not at all. Any of these
//! will do:
//!
//! | yours | feature |
//! |---|---|
//! | [`tokio_postgres::Transaction`], [`deadpool_postgres::Transaction`] | `postgres` |
//! | [`rusqlite::Transaction`], on the same database file as Turno's | `sqlite` |
//! | `sqlx::PgConnection` and thereby `&mut *tx` of a `sqlx::Transaction<Postgres>` | `sqlx-postgres` |
//! | `sqlx::SqliteConnection` and thereby `&mut *tx` of a `sqlx::Transaction<Sqlite>` | `sqlx-sqlite` |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("app.db");
//! let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
//! let lease = turno.lock("PRESTAMO/123").acquire().await?.acquired().expect("nobody has it");
//!
//! let mut yours = rusqlite::Connection::open(&file)?;
//! yours.execute_batch("create table payment (amount text)")?;
//! let mut tx = yours.transaction()?;
//! tx.execute("insert into payment values ('100.00')", [])?;
//! lease.guard(&mut tx).await?; // last, before the commit
//! tx.commit()?;
//! # Ok(()) }
//! ```

use crate::error::Result;
use crate::store::Token;

/// A transaction of the caller's, in which Turno can take part.
pub trait CallerTx {
    /// Fails if the token is stale; otherwise nobody can take the lock over until the transaction ends.
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if the token is stale.
    fn lock_guard(&mut self, resource: &str, token: Token) -> impl Future<Output = Result<()>>;
}

#[cfg(feature = "postgres")]
mod of_tokio_postgres {
    use tokio_postgres::types::Type;

    use super::*;
    use crate::store::postgres::{LOCK_GUARD, classify};

    impl CallerTx for tokio_postgres::Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            self.query_typed(
                LOCK_GUARD,
                &[(&resource, Type::TEXT), (&token.0, Type::INT8)],
            )
            .await
            .map(drop)
            .map_err(classify)
        }
    }

    impl CallerTx for deadpool_postgres::Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            self.query_typed(
                LOCK_GUARD,
                &[(&resource, Type::TEXT), (&token.0, Type::INT8)],
            )
            .await
            .map(drop)
            .map_err(classify)
        }
    }
}

#[cfg(feature = "sqlite")]
mod of_rusqlite {
    use super::*;
    use crate::error::Error;
    use crate::store::sqlite::{LOCK_GUARD, classify};

    impl CallerTx for rusqlite::Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            let now = crate::clock::now_us();
            let changed = self
                .prepare_cached(LOCK_GUARD)
                .and_then(|mut guard| guard.execute((resource, token.0, now)))
                .map_err(classify)?;
            if changed == 0 {
                Err(Error::lost(resource, token))
            } else {
                Ok(())
            }
        }
    }
}

#[cfg(feature = "sqlx-postgres")]
mod of_sqlx_postgres {
    use super::*;
    use crate::error::{Error, Kind};
    use crate::store::postgres::{LOCK_GUARD, is_stale};

    impl CallerTx for sqlx::PgConnection {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            let guard = sqlx::query(LOCK_GUARD)
                .persistent(false)
                .bind(resource)
                .bind(token.0);
            match guard.execute(self).await {
                Ok(_) => Ok(()),
                Err(sqlx::Error::Database(error))
                    if error.code().is_some_and(|code| is_stale(&code)) =>
                {
                    Err(Error::lost(resource, token))
                }
                Err(error) => Err(Error::caused(
                    Kind::Unavailable,
                    format!("the guard could not be asked ({error}): roll back"),
                    error,
                )),
            }
        }
    }
}

#[cfg(feature = "sqlx-sqlite")]
mod of_sqlx_sqlite {
    use super::*;
    use crate::error::{Error, Kind};
    use crate::store::sqlite::LOCK_GUARD;

    impl CallerTx for sqlx::SqliteConnection {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            let guard = sqlx::query(LOCK_GUARD)
                .bind(resource)
                .bind(token.0)
                .bind(crate::clock::now_us());
            match guard.execute(self).await {
                Ok(done) if done.rows_affected() > 0 => Ok(()),
                Ok(_) => Err(Error::lost(resource, token)),
                Err(error) => Err(Error::caused(
                    Kind::Unavailable,
                    format!("the guard could not be asked ({error}): roll back"),
                    error,
                )),
            }
        }
    }
}
