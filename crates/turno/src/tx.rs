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

use uuid::Uuid;

use crate::error::Result;
use crate::store::{ClaimId, InboxPush, NewEvent, OnceComplete, PushedItem, Settled, Token};

/// A transaction of the caller's, in which Turno can take part.
pub trait CallerTx {
    /// Fails if the token is stale; otherwise nobody can take the lock over until the transaction ends.
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if the token is stale.
    fn lock_guard(&mut self, resource: &str, token: Token) -> impl Future<Output = Result<()>>;

    /// Stores items: they are there if and only if the transaction commits.
    ///
    /// # Errors
    /// If the database refuses: roll back.
    fn inbox_push(&mut self, ask: &InboxPush) -> impl Future<Output = Result<Vec<PushedItem>>>;

    /// Ends items that are done, together with what else the transaction does.
    ///
    /// # Errors
    /// If the database refuses: roll back. Stale claims are in the answer.
    fn inbox_complete(&mut self, claims: &[ClaimId]) -> impl Future<Output = Result<Settled>>;

    /// Stores events, and answers their ids: they are published if and only if the transaction commits.
    ///
    /// # Errors
    /// If the database refuses: roll back.
    fn outbox_emit(&mut self, events: &[NewEvent]) -> impl Future<Output = Result<Vec<Uuid>>>;

    /// True if a consumer sees an event for the first time; it is remembered if the transaction commits.
    ///
    /// # Errors
    /// If the database refuses: roll back.
    fn seen(&mut self, consumer: &str, event: Uuid) -> impl Future<Output = Result<bool>>;

    /// Ends the work of a request with its answer, together with what else the transaction does.
    ///
    /// # Errors
    /// [`Error::is_lost`](crate::Error::is_lost) if the claim is stale: roll back, as if the database refuses.
    fn once_complete(&mut self, ask: &OnceComplete) -> impl Future<Output = Result<()>>;
}

#[cfg(feature = "postgres")]
mod of_tokio_postgres {
    use tokio_postgres::Transaction;
    use tokio_postgres::types::Type;

    use super::*;
    use crate::store::postgres::{
        EmitColumns, INBOX_COMPLETE_IN, INBOX_PUSH_IN, LOCK_GUARD, ONCE_COMPLETE_IN, OUTBOX_EMIT,
        PushColumns, SEEN, classify, emitted, pushed, settled, ttl_text,
    };

    impl CallerTx for Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            guard(self, resource, token).await
        }

        async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
            push(self, ask).await
        }

        async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
            complete(self, claims).await
        }

        async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
            emit(self, events).await
        }

        async fn seen(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
            seen(self, consumer, event).await
        }

        async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
            once_complete(self, ask).await
        }
    }

    impl CallerTx for deadpool_postgres::Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            guard(self, resource, token).await
        }

        async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
            push(self, ask).await
        }

        async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
            complete(self, claims).await
        }

        async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
            emit(self, events).await
        }

        async fn seen(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
            seen(self, consumer, event).await
        }

        async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
            once_complete(self, ask).await
        }
    }

    async fn guard(tx: &Transaction<'_>, resource: &str, token: Token) -> Result<()> {
        tx.query_typed(
            LOCK_GUARD,
            &[(&resource, Type::TEXT), (&token.0, Type::INT8)],
        )
        .await
        .map(drop)
        .map_err(classify)
    }

    async fn push(tx: &Transaction<'_>, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        let columns = PushColumns::of(&ask.items);
        let (delays, run_ats) = columns.texts();
        let rows = tx
            .query_typed(
                INBOX_PUSH_IN,
                &[
                    (&ask.queue, Type::TEXT),
                    (&columns.payloads, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.priorities, Type::INT4_ARRAY),
                    (&delays, Type::TEXT_ARRAY),
                    (&run_ats, Type::TEXT_ARRAY),
                    (&columns.groups, Type::TEXT_ARRAY),
                    (&columns.max_attempts, Type::INT4_ARRAY),
                ],
            )
            .await
            .map_err(classify)?;
        rows.first().map_or_else(|| Ok(Vec::new()), pushed)
    }

    async fn complete(tx: &Transaction<'_>, claims: &[ClaimId]) -> Result<Settled> {
        let claims: Vec<String> = claims.iter().map(ClaimId::to_string).collect();
        let row = tx
            .query_typed(INBOX_COMPLETE_IN, &[(&claims, Type::TEXT_ARRAY)])
            .await
            .map_err(classify)?;
        row.first().map_or(Ok(Settled::default()), settled)
    }

    async fn emit(tx: &Transaction<'_>, events: &[NewEvent]) -> Result<Vec<Uuid>> {
        let columns = EmitColumns::of(events)?;
        let rows = tx
            .query_typed(OUTBOX_EMIT, &columns.arguments(&None))
            .await
            .map_err(classify)?;
        let ids: Vec<String> = match rows.first() {
            Some(row) => row.try_get(0).map_err(classify)?,
            None => Vec::new(),
        };
        emitted(&ids)
    }

    async fn seen(tx: &Transaction<'_>, consumer: &str, event: Uuid) -> Result<bool> {
        let event = event.to_string();
        let rows = tx
            .query_typed(SEEN, &[(&consumer, Type::TEXT), (&event, Type::TEXT)])
            .await
            .map_err(classify)?;
        rows.first()
            .map_or(Ok(false), |row| row.try_get(0).map_err(classify))
    }

    async fn once_complete(tx: &Transaction<'_>, ask: &OnceComplete) -> Result<()> {
        let (claim, ttl) = (ask.claim.to_string(), ttl_text(ask));
        tx.query_typed(
            ONCE_COMPLETE_IN,
            &[
                (&claim, Type::TEXT),
                (&ask.answer, Type::TEXT),
                (&ttl, Type::TEXT),
            ],
        )
        .await
        .map(drop)
        .map_err(classify)
    }
}

#[cfg(feature = "sqlite")]
mod of_rusqlite {
    use super::*;
    use crate::clock::now_us;
    use crate::error::Error;
    use crate::store::OnceSettled;
    use crate::store::sqlite::{LOCK_GUARD, classify, inbox, once};

    impl CallerTx for rusqlite::Transaction<'_> {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            let changed = self
                .prepare_cached(LOCK_GUARD)
                .and_then(|mut guard| guard.execute((resource, token.0, now_us())))
                .map_err(classify)?;
            if changed == 0 {
                Err(Error::lost(resource, token))
            } else {
                Ok(())
            }
        }

        async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
            inbox::push_in(self, ask, now_us())
        }

        async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
            inbox::complete_in(self, claims, now_us())
        }

        async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
            let (items, ids) = inbox::event_items(events)?;
            self.inbox_push(&in_outbox(items)).await?;
            Ok(ids)
        }

        async fn seen(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
            self.prepare_cached(inbox::SEEN)
                .and_then(|mut seen| seen.execute((consumer, event.as_bytes(), now_us())))
                .map(|rows| rows > 0)
                .map_err(classify)
        }

        async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
            match once::complete_in(self, ask, now_us())? {
                OnceSettled::Done => Ok(()),
                OnceSettled::Stale => Err(Error::stale(&ask.claim)),
            }
        }
    }
}

/// Events as items, in stores that keep them so.
#[cfg(any(feature = "sqlite", feature = "sqlx-sqlite"))]
fn in_outbox(items: Vec<crate::store::NewItem>) -> InboxPush {
    InboxPush {
        queue: crate::store::OUTBOX_QUEUE.to_owned(),
        items,
        request: Uuid::now_v7(),
    }
}

#[cfg(feature = "sqlx-postgres")]
mod of_sqlx_postgres {
    use sqlx::Row;

    use super::*;
    use crate::error::{Error, Kind};
    use crate::store::postgres::{
        EmitColumns, INBOX_COMPLETE_IN, INBOX_PUSH_IN, LOCK_GUARD, ONCE_COMPLETE_IN, OUTBOX_EMIT,
        PushColumns, SEEN, classify_code, emitted, in_order, ttl_text,
    };

    impl CallerTx for sqlx::PgConnection {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            sqlx::query(LOCK_GUARD)
                .persistent(false)
                .bind(resource)
                .bind(token.0)
                .execute(self)
                .await
                .map(drop)
                .map_err(classify)
        }

        async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
            let columns = PushColumns::of(&ask.items);
            let (delays, run_ats) = columns.texts();
            let row = sqlx::query(INBOX_PUSH_IN)
                .persistent(false)
                .bind(&ask.queue)
                .bind(&columns.payloads)
                .bind(&columns.keys)
                .bind(&columns.priorities)
                .bind(&delays)
                .bind(&run_ats)
                .bind(&columns.groups)
                .bind(&columns.max_attempts)
                .fetch_one(self)
                .await
                .map_err(classify)?;
            let ids = row.try_get(0).map_err(classify)?;
            let duplicates: Option<Vec<i32>> = row.try_get(1).map_err(classify)?;
            Ok(in_order(ids, &duplicates.unwrap_or_default()))
        }

        async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
            let claims: Vec<String> = claims.iter().map(ClaimId::to_string).collect();
            let row = sqlx::query(INBOX_COMPLETE_IN)
                .persistent(false)
                .bind(claims)
                .fetch_one(self)
                .await
                .map_err(classify)?;
            let done: i64 = row.try_get(0).map_err(classify)?;
            let stale: Vec<String> = row.try_get(1).map_err(classify)?;
            Ok(Settled {
                done: done.try_into().unwrap_or(0),
                stale: stale
                    .iter()
                    .map(|claim| claim.parse())
                    .collect::<Result<_>>()?,
            })
        }

        async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
            let columns = EmitColumns::of(events)?;
            let row = sqlx::query(OUTBOX_EMIT)
                .persistent(false)
                .bind(&columns.kinds)
                .bind(&columns.payloads)
                .bind(&columns.keys)
                .bind(&columns.correlation_ids)
                .bind(&columns.traceparents)
                .bind(&columns.tracestates)
                .bind(&columns.headers)
                .bind(&columns.delays)
                .bind(&columns.ids)
                .bind(None::<String>)
                .fetch_one(self)
                .await
                .map_err(classify)?;
            let ids: Vec<String> = row.try_get(0).map_err(classify)?;
            emitted(&ids)
        }

        async fn seen(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
            sqlx::query(SEEN)
                .persistent(false)
                .bind(consumer)
                .bind(event.to_string())
                .fetch_one(self)
                .await
                .and_then(|row| row.try_get(0))
                .map_err(classify)
        }

        async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
            sqlx::query(ONCE_COMPLETE_IN)
                .persistent(false)
                .bind(ask.claim.to_string())
                .bind(&ask.answer)
                .bind(ttl_text(ask))
                .execute(self)
                .await
                .map(drop)
                .map_err(classify)
        }
    }

    fn classify(error: sqlx::Error) -> Error {
        match &error {
            sqlx::Error::Database(told) => {
                let code = told.code().unwrap_or_default();
                let hint = told
                    .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
                    .and_then(|told| told.hint())
                    .map(str::to_owned);
                let (kind, message) = classify_code(&code, told.message().to_owned(), hint);
                Error::caused(kind, message, error)
            }
            _ => Error::caused(
                Kind::Unavailable,
                format!("the transaction could not be used ({error}): roll back"),
                error,
            ),
        }
    }
}

#[cfg(feature = "sqlx-sqlite")]
mod of_sqlx_sqlite {
    use sqlx::{Row, SqliteConnection};

    use super::*;
    use crate::clock::{as_us, now_us};
    use crate::error::{Error, Kind};
    use crate::store::sqlite::{LOCK_GUARD, inbox, once};
    use crate::store::{ItemId, NewItem};

    impl CallerTx for SqliteConnection {
        async fn lock_guard(&mut self, resource: &str, token: Token) -> Result<()> {
            let guard = sqlx::query(LOCK_GUARD)
                .bind(resource)
                .bind(token.0)
                .bind(now_us());
            match guard.execute(self).await.map_err(classify)?.rows_affected() {
                0 => Err(Error::lost(resource, token)),
                _ => Ok(()),
            }
        }

        async fn inbox_push(&mut self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
            let make = sqlx::query(inbox::INBOX_QUEUE_MAKE).bind(&ask.queue);
            let queue = number(make.fetch_one(&mut *self).await)?;
            let mut pushed = Vec::with_capacity(ask.items.len());
            for item in &ask.items {
                pushed.push(push(self, queue, item, now_us()).await?);
            }
            Ok(pushed)
        }

        async fn inbox_complete(&mut self, claims: &[ClaimId]) -> Result<Settled> {
            let mut settled = Settled::default();
            for claim in claims {
                if complete(self, claim, now_us()).await.map_err(classify)? {
                    settled.done += 1;
                } else {
                    settled.stale.push(*claim);
                }
            }
            Ok(settled)
        }

        async fn outbox_emit(&mut self, events: &[NewEvent]) -> Result<Vec<Uuid>> {
            let (items, ids) = inbox::event_items(events)?;
            self.inbox_push(&in_outbox(items)).await?;
            Ok(ids)
        }

        async fn seen(&mut self, consumer: &str, event: Uuid) -> Result<bool> {
            sqlx::query(inbox::SEEN)
                .bind(consumer)
                .bind(&event.as_bytes()[..])
                .bind(now_us())
                .execute(self)
                .await
                .map(|done| done.rows_affected() > 0)
                .map_err(classify)
        }

        async fn once_complete(&mut self, ask: &OnceComplete) -> Result<()> {
            let (key, token) = (&ask.claim.key, ask.claim.token.0);
            let complete = sqlx::query(once::ONCE_COMPLETE)
                .bind(key)
                .bind(token)
                .bind(&ask.answer)
                .bind(ask.ttl.map(as_us))
                .bind(now_us());
            let done = complete.execute(&mut *self).await.map_err(classify)?;
            if done.rows_affected() > 0 {
                return Ok(());
            }
            let before = sqlx::query(once::ONCE_IS)
                .bind(key)
                .bind(token)
                .bind(once::DONE);
            match number(before.fetch_one(self).await)? {
                0 => Err(Error::stale(&ask.claim)),
                _ => Ok(()),
            }
        }
    }

    /// The statements of `push_in`, in its order.
    async fn push(
        tx: &mut SqliteConnection,
        queue: i64,
        item: &NewItem,
        now: i64,
    ) -> Result<PushedItem> {
        let serial = sqlx::query(inbox::INBOX_SERIAL).bind(1);
        let id = number(serial.fetch_one(&mut *tx).await)?;
        if let Some(key) = &item.key {
            let take = sqlx::query(inbox::INBOX_KEY).bind(queue).bind(key).bind(id);
            let holder = number(take.fetch_one(&mut *tx).await)?;
            if holder != id {
                return Ok(PushedItem {
                    id: ItemId(holder),
                    duplicate: true,
                });
            }
        }
        let due = inbox::due_us(item, now);
        sqlx::query(inbox::INBOX_PUSH)
            .bind(id)
            .bind(queue)
            .bind(item.priority)
            .bind(due)
            .bind(item.max_attempts)
            .bind(now)
            .bind(item.key.as_ref().or(item.label.as_ref()))
            .bind(&item.group)
            .bind(&item.payload)
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        if let Some(due) = due {
            let count = sqlx::query(inbox::INBOX_TX_DUE).bind(queue).bind(due);
            count.execute(&mut *tx).await.map_err(classify)?;
        }
        self::count(tx, queue, [1, 0, 0, 0])
            .await
            .map_err(classify)?;
        Ok(PushedItem {
            id: ItemId(id),
            duplicate: false,
        })
    }

    /// The statements of `complete_in`, in its order. False if the claim is stale.
    async fn complete(
        tx: &mut SqliteConnection,
        claim: &ClaimId,
        now: i64,
    ) -> Result<bool, sqlx::Error> {
        let id = claim.item.0;
        let taken = sqlx::query(inbox::INBOX_TX_TAKE)
            .bind(id)
            .bind(&claim.token.as_bytes()[..])
            .fetch_optional(&mut *tx)
            .await?;
        let Some(taken) = taken else {
            return Ok(false);
        };
        let (queue, held_by): (i64, i64) = (taken.try_get(0)?, taken.try_get(1)?);
        let (key, group): (Option<String>, Option<String>) = (taken.try_get(2)?, taken.try_get(3)?);
        let errors: i64 = taken.try_get(4)?;
        let release = sqlx::query(inbox::INBOX_CLAIM_RELEASE)
            .bind(held_by)
            .bind(1);
        let worker: String = release.fetch_one(&mut *tx).await?.try_get(0)?;
        let done = sqlx::query(inbox::INBOX_DONE)
            .bind(queue)
            .bind(id)
            .bind(now)
            .bind(worker)
            .bind(key);
        done.execute(&mut *tx).await?;
        count(tx, queue, [0, -1, 0, 1]).await?;
        if let Some(group) = group {
            let next = sqlx::query(inbox::INBOX_GROUP_NEXT).bind(queue).bind(group);
            next.execute(&mut *tx).await?;
        }
        if errors > 0 {
            let forget = sqlx::query(inbox::INBOX_ERROR_FORGET).bind(id).bind(errors);
            forget.execute(&mut *tx).await?;
        }
        Ok(true)
    }

    async fn count(
        tx: &mut SqliteConnection,
        queue: i64,
        more: [i64; 4],
    ) -> Result<(), sqlx::Error> {
        let mut count = sqlx::query(inbox::INBOX_QUEUE_COUNT).bind(queue);
        for more in more {
            count = count.bind(more);
        }
        count.execute(tx).await.map(drop)
    }

    fn number(row: Result<sqlx::sqlite::SqliteRow, sqlx::Error>) -> Result<i64> {
        row.and_then(|row| row.try_get(0)).map_err(classify)
    }

    fn classify(error: sqlx::Error) -> Error {
        Error::caused(
            Kind::Unavailable,
            format!("the transaction could not be used ({error}): roll back"),
            error,
        )
    }
}
