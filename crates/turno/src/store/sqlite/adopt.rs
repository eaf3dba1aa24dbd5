//! Adopted tables: the statements are in `queries/adopt.sql`, with placeholders for the names of table and columns.

mod change;
mod names;
mod outbox_table;

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, named_params};
use uuid::Uuid;

use self::names::Adopted;
use super::SqliteStore;
use super::rows::{exec, many, one};
use crate::clock::{self, as_us};
use crate::error::Result;
use crate::store::*;

/// Maximum length of a stored error, in characters.
const ERROR_LENGTH: usize = 4000;

#[async_trait]
impl AdoptStore for SqliteStore {
    async fn adopt(&self, ask: &AdoptTable) -> Result<Adoption> {
        let ask = ask.clone();
        self.writer.write(move |db| change::adopt(db, &ask)).await
    }

    async fn adopt_print(&self, ask: &AdoptTable) -> Result<String> {
        let ask = ask.clone();
        self.read(move |db| change::print(db, &ask)).await
    }

    /// SQLite has no functions that could conflict, so only the arguments are checked.
    async fn adopt_difference(&self, ask: &AdoptTable) -> Result<String> {
        self.adopt_print(ask).await?;
        Ok(String::new())
    }

    async fn adopt_undo(&self, table: &str) -> Result<Adoption> {
        let table = table.to_owned();
        self.writer.write(move |db| change::undo(db, &table)).await
    }

    async fn adopted_acquire(&self, ask: &AdoptedAcquire) -> Result<AdoptedOutcome> {
        let ask = ask.clone();
        self.writer.write(move |db| acquire(db, &ask)).await
    }

    async fn adopted_release(&self, ask: &AdoptedRelease) -> Result<AdoptedSettled> {
        let ask = ask.clone();
        self.writer.write(move |db| release(db, &ask)).await
    }

    async fn adopted_next(&self, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>> {
        let ask = ask.clone();
        self.writer.write(move |db| next(db, &ask)).await
    }

    async fn adopted_cleanup(&self, table: &str, timeout: Duration) -> Result<u64> {
        let table = table.to_owned();
        self.writer
            .write(move |db| cleanup(db, &table, timeout))
            .await
    }

    async fn adopted_reset(&self, table: &str, which: AdoptedReset) -> Result<u64> {
        let table = table.to_owned();
        self.writer.write(move |db| reset(db, &table, which)).await
    }

    async fn adopted_stats(&self, table: &str, user: Option<&str>) -> Result<AdoptedStats> {
        let (table, user) = (table.to_owned(), user.map(str::to_owned));
        self.read(move |db| stats(db, &table, user.as_deref()))
            .await
    }

    async fn adopted_mark(&self, table: &str, id: &str) -> Result<bool> {
        let (table, id) = (table.to_owned(), id.to_owned());
        self.writer
            .write(move |db| {
                let adopted = Adopted::of_shape(db, &table, Shape::Processed)?;
                let at = at(&adopted, clock::now_us());
                let sql = adopted.fill(query!(adopt_mark));
                Ok(exec(db, &sql, named_params! {":id": id, ":at": at})? > 0)
            })
            .await
    }

    async fn adopted_unmark(&self, table: &str, id: &str) -> Result<bool> {
        let (table, id) = (table.to_owned(), id.to_owned());
        self.writer
            .write(move |db| {
                let adopted = Adopted::of_shape(db, &table, Shape::Processed)?;
                let sql = adopted.fill(query!(adopt_unmark));
                Ok(exec(db, &sql, named_params! {":id": id})? > 0)
            })
            .await
    }

    async fn outbox_table_adopt(&self, ask: &AdoptOutboxTable) -> Result<AdoptedOutboxTable> {
        let ask = ask.clone();
        self.writer
            .write(move |db| outbox_table::adopt(db, &ask))
            .await
    }

    async fn outbox_table_print(&self, ask: &AdoptOutboxTable) -> Result<String> {
        let ask = ask.clone();
        self.read(move |db| outbox_table::print(db, &ask)).await
    }

    async fn outbox_table_undo(&self, table: &str) -> Result<AdoptedOutboxTable> {
        let table = table.to_owned();
        self.writer
            .write(move |db| outbox_table::undo(db, &table))
            .await
    }

    async fn outbox_table_find(&self, table: &str) -> Result<Option<AdoptedOutboxTable>> {
        let table = table.to_owned();
        self.read(move |db| outbox_table::find(db, &table)).await
    }

    async fn outbox_table_claim(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxClaim,
    ) -> Result<Vec<OutboxRow>> {
        let (table, ask) = (table.clone(), ask.clone());
        self.writer
            .write(move |db| outbox_table::claim(db, &table, &ask, clock::now_us()))
            .await
    }

    async fn outbox_table_settle(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRowsSettle,
    ) -> Result<OutboxSettled> {
        let (table, ask) = (table.clone(), ask.clone());
        self.writer
            .write(move |db| outbox_table::settle(db, &table, &ask, clock::now_us()))
            .await
    }

    async fn outbox_table_extend(
        &self,
        table: &AdoptedOutboxTable,
        token: Uuid,
        lease: Duration,
    ) -> Result<bool> {
        let table = table.clone();
        self.writer
            .write(move |db| outbox_table::extend(db, &table, token, lease, clock::now_us()))
            .await
    }

    async fn outbox_table_recover(&self, table: &AdoptedOutboxTable) -> Result<u64> {
        let table = table.clone();
        self.writer
            .write(move |db| outbox_table::recover(db, &table, clock::now_us()))
            .await
    }

    async fn outbox_table_has_pending(&self, table: &AdoptedOutboxTable) -> Result<bool> {
        let table = table.clone();
        self.read(move |db| outbox_table::has_pending(db, &table, clock::now_us()))
            .await
    }

    async fn outbox_table_stats(&self, table: &AdoptedOutboxTable) -> Result<OutboxTableStats> {
        let table = table.clone();
        self.read(move |db| outbox_table::stats(db, &table, clock::now_us()))
            .await
    }

    async fn outbox_table_list(
        &self,
        table: &AdoptedOutboxTable,
        state: EventState,
        after: Option<&str>,
        limit: u32,
    ) -> Result<OutboxTablePage> {
        let (table, after) = (table.clone(), after.map(str::to_owned));
        self.read(move |db| {
            let page = (after.as_deref(), limit);
            outbox_table::list(db, &table, state, page, clock::now_us())
        })
        .await
    }

    async fn outbox_table_requeue(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRequeue,
    ) -> Result<u64> {
        let (table, ask) = (table.clone(), ask.clone());
        self.writer
            .write(move |db| outbox_table::requeue(db, &table, &ask, clock::now_us()))
            .await
    }

    async fn outbox_table_discard(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxDiscard,
    ) -> Result<u64> {
        let (table, ask) = (table.clone(), ask.clone());
        self.writer
            .write(move |db| outbox_table::discard(db, &table, &ask, clock::now_us()))
            .await
    }
}

fn acquire(db: &Connection, ask: &AdoptedAcquire) -> Result<AdoptedOutcome> {
    let adopted = Adopted::of_shape(db, &ask.table, Shape::Processing)?;
    let now = clock::now_us();
    let tokens: Vec<i64> = many(
        db,
        &adopted.fill(query!(adopt_acquire)),
        named_params! {":id": ask.id, ":now": now, ":cutoff": now.saturating_sub(as_us(ask.timeout))},
        |row| row.get(0),
    )?;
    Ok(match tokens.first() {
        Some(token) => AdoptedOutcome::Acquired {
            token: Token(*token),
        },
        None => AdoptedOutcome::Busy,
    })
}

/// Recognizes a repeated release, whose response was lost, by its token and its effect.
fn release(db: &Connection, ask: &AdoptedRelease) -> Result<AdoptedSettled> {
    let adopted = Adopted::of_shape(db, &ask.table, Shape::Processing)?;
    let (id, token) = (&ask.id, ask.token.0);
    let done = match &ask.end {
        AdoptedEnd::Processed => {
            let at = at(&adopted, clock::now_us());
            let sql = adopted.fill(query!(adopt_release));
            let again = adopted.fill(query!(adopt_released));
            exec(
                db,
                &sql,
                named_params! {":id": id, ":token": token, ":at": at},
            )? > 0
                || one(db, &again, named_params! {":id": id, ":token": token})?
        }
        AdoptedEnd::Failed(error) => {
            let sql = adopted.fill(query!(adopt_fail));
            let again = adopted.fill(query!(adopt_failed));
            let error = shortened(error);
            let fail = named_params! {":id": id, ":token": token, ":error": error};
            exec(db, &sql, fail)? > 0 || one(db, &again, fail)?
        }
    };
    Ok(if done {
        AdoptedSettled::Released
    } else {
        AdoptedSettled::Stale
    })
}

fn next(db: &Connection, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>> {
    let adopted = Adopted::of_shape(db, &ask.table, Shape::Processing)?;
    let now = clock::now_us();
    let mut taken = many(
        db,
        &adopted.fill(query!(adopt_next)),
        named_params! {
            ":user": ask.user,
            ":limit": ask.limit,
            ":now": now,
            ":cutoff": now.saturating_sub(as_us(ask.timeout)),
            ":max_attempts": adopted.max_attempts,
        },
        |row| {
            Ok(AdoptedRow {
                id: row.get(0)?,
                token: Token(row.get(1)?),
                attempt: row.get(2)?,
            })
        },
    )?;
    taken.sort_by_key(|row| row.attempt);
    Ok(taken)
}

fn cleanup(db: &Connection, table: &str, timeout: Duration) -> Result<u64> {
    let adopted = Adopted::of_shape(db, table, Shape::Processing)?;
    let error = format!("abandoned: not released within {timeout:?}");
    exec(
        db,
        &adopted.fill(query!(adopt_cleanup)),
        named_params! {":cutoff": clock::now_us().saturating_sub(as_us(timeout)), ":error": error},
    )
}

fn reset(db: &Connection, table: &str, which: AdoptedReset) -> Result<u64> {
    let adopted = Adopted::of_shape(db, table, Shape::Processing)?;
    match which {
        AdoptedReset::Stuck(timeout) => exec(
            db,
            &adopted.fill(query!(adopt_reset_stuck)),
            named_params! {":cutoff": clock::now_us().saturating_sub(as_us(timeout))},
        ),
        AdoptedReset::All => exec(db, &adopted.fill(query!(adopt_reset_all)), []),
    }
}

fn stats(db: &Connection, table: &str, user: Option<&str>) -> Result<AdoptedStats> {
    let adopted = Adopted::find(db, table)?.ok_or_else(|| not_adopted(table))?;
    let sql = match adopted.shape {
        Shape::Processing => adopted.fill(query!(adopt_stats)),
        Shape::Processed => adopted.fill(query!(adopt_stats_marked)),
    };
    let stats = many(db, &sql, named_params! {":user": user}, |row| {
        let counted = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
        Ok(AdoptedStats {
            total: counted(0)?,
            pending: counted(1)?,
            processing: counted(2)?,
            completed: counted(3)?,
            failed: counted(4)?,
        })
    })?;
    Ok(stats.into_iter().next().unwrap_or_default())
}

/// Returns a time in the format of the table's column.
fn at(adopted: &Adopted, now: i64) -> Value {
    if adopted.text_times {
        Value::Text(clock::from_us(now).to_string())
    } else {
        Value::Integer(now)
    }
}

fn shortened(error: &str) -> String {
    if error.is_empty() {
        "no error message was given".to_owned()
    } else {
        error.chars().take(ERROR_LENGTH).collect()
    }
}
