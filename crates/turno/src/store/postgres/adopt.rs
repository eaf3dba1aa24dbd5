//! Adopted tables: each has its own functions, in its own schema, which run with the caller's rights.
//!
//! The database returns the statements that call them, once per table, because it quotes the names.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::interval::Interval;
use super::rows::{big_count, count, count_in, get};
use super::{Argument, PostgresStore, classify};
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// Cache of the statements of adopted tables, by the table name of the caller.
#[derive(Debug, Default)]
pub(super) struct AdoptedCalls(Mutex<HashMap<String, Arc<HashMap<String, String>>>>);

impl AdoptedCalls {
    fn get(&self, table: &str) -> Option<Arc<HashMap<String, String>>> {
        self.lock().get(table).cloned()
    }

    fn keep(&self, table: &str, calls: Arc<HashMap<String, String>>) {
        self.lock().insert(table.to_owned(), calls);
    }

    fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<HashMap<String, String>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AdoptStore for PostgresStore {
    async fn adopt(&self, ask: &AdoptTable) -> Result<Adoption> {
        self.adopted.forget();
        let row = self
            .call_without_limits(query!(adopt), ask, &[(&ask.replace, Type::BOOL)])
            .await?;
        adoption(&row)
    }

    async fn adopt_print(&self, ask: &AdoptTable) -> Result<String> {
        let row = self
            .call_without_limits(query!(adopt_print), ask, &[(&ask.replace, Type::BOOL)])
            .await?;
        get(&row, "script")
    }

    async fn adopt_difference(&self, ask: &AdoptTable) -> Result<String> {
        let row = self
            .call_without_limits(query!(adopt_difference), ask, &[])
            .await?;
        get(&row, "difference")
    }

    async fn adopt_undo(&self, table: &str) -> Result<Adoption> {
        self.adopted.forget();
        let rows = self
            .without_limits(query!(unadopt), &[(&table, Type::TEXT)])
            .await?;
        adoption(first(&rows)?)
    }

    async fn adopted_acquire(&self, ask: &AdoptedAcquire) -> Result<AdoptedOutcome> {
        let rows = self
            .adopted_rows(
                (&ask.table, "acquire"),
                &[
                    (&ask.id, Type::TEXT),
                    (&Interval(ask.timeout), Type::INTERVAL),
                ],
            )
            .await?;
        Ok(match get::<Option<i64>>(first(&rows)?, "token")? {
            Some(token) => AdoptedOutcome::Acquired {
                token: Token(token),
            },
            None => AdoptedOutcome::Busy,
        })
    }

    async fn adopted_release(&self, ask: &AdoptedRelease) -> Result<AdoptedSettled> {
        let (id, token): (Argument<'_>, Argument<'_>) =
            ((&ask.id, Type::TEXT), (&ask.token.0, Type::INT8));
        let rows = match &ask.end {
            AdoptedEnd::Processed => {
                self.adopted_rows((&ask.table, "release"), &[id, token])
                    .await?
            }
            AdoptedEnd::Failed(error) => {
                // PostgreSQL's text cannot contain a zero, and the error must not be lost because of it.
                let error = error.replace('\0', "");
                self.adopted_rows((&ask.table, "fail"), &[id, (&error, Type::TEXT), token])
                    .await?
            }
        };
        Ok(if get(first(&rows)?, "done")? {
            AdoptedSettled::Released
        } else {
            AdoptedSettled::Stale
        })
    }

    async fn adopted_next(&self, ask: &AdoptedNext) -> Result<Vec<AdoptedRow>> {
        let limit = count_in(ask.limit);
        let rows = self
            .adopted_rows(
                (&ask.table, "next"),
                &[
                    (&ask.user, Type::TEXT),
                    (&limit, Type::INT4),
                    (&Interval(ask.timeout), Type::INTERVAL),
                ],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(AdoptedRow {
                    id: get(row, "id")?,
                    token: Token(get(row, "token")?),
                    attempt: count(row, "attempt")?,
                })
            })
            .collect()
    }

    async fn adopted_cleanup(&self, table: &str, timeout: Duration) -> Result<u64> {
        let rows = self
            .adopted_rows((table, "cleanup"), &[(&Interval(timeout), Type::INTERVAL)])
            .await?;
        big_count(first(&rows)?, "many")
    }

    async fn adopted_reset(&self, table: &str, which: AdoptedReset) -> Result<u64> {
        let (timeout, all) = match which {
            AdoptedReset::Stuck(timeout) => (timeout, false),
            AdoptedReset::All => (Duration::ZERO, true),
        };
        let rows = self
            .adopted_rows(
                (table, "reset"),
                &[(&Interval(timeout), Type::INTERVAL), (&all, Type::BOOL)],
            )
            .await?;
        big_count(first(&rows)?, "many")
    }

    async fn adopted_stats(&self, table: &str, user: Option<&str>) -> Result<AdoptedStats> {
        let rows = self
            .adopted_rows((table, "stats"), &[(&user, Type::TEXT)])
            .await?;
        let row = first(&rows)?;
        Ok(AdoptedStats {
            total: big_count(row, "total")?,
            pending: big_count(row, "pending")?,
            processing: big_count(row, "processing")?,
            completed: big_count(row, "completed")?,
            failed: big_count(row, "failed")?,
        })
    }

    async fn adopted_mark(&self, table: &str, id: &str) -> Result<bool> {
        let rows = self
            .adopted_rows((table, "mark"), &[(&id, Type::TEXT)])
            .await?;
        get(first(&rows)?, "done")
    }

    async fn adopted_unmark(&self, table: &str, id: &str) -> Result<bool> {
        let rows = self
            .adopted_rows((table, "unmark"), &[(&id, Type::TEXT)])
            .await?;
        get(first(&rows)?, "done")
    }

    async fn outbox_table_adopt(&self, ask: &AdoptOutboxTable) -> Result<AdoptedOutboxTable> {
        self.adopt_outbox(ask).await
    }

    async fn outbox_table_print(&self, ask: &AdoptOutboxTable) -> Result<String> {
        self.print_outbox(ask).await
    }

    async fn outbox_table_undo(&self, table: &str) -> Result<AdoptedOutboxTable> {
        self.undo_outbox(table).await
    }

    async fn outbox_table_find(&self, table: &str) -> Result<Option<AdoptedOutboxTable>> {
        self.find_outbox(table).await
    }

    async fn outbox_table_claim(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxClaim,
    ) -> Result<Vec<OutboxRow>> {
        self.claim_rows(table, ask).await
    }

    async fn outbox_table_settle(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRowsSettle,
    ) -> Result<OutboxSettled> {
        self.settle_rows(table, ask).await
    }

    async fn outbox_table_extend(
        &self,
        table: &AdoptedOutboxTable,
        token: Uuid,
        lease: Duration,
    ) -> Result<bool> {
        self.extend_rows(table, token, lease).await
    }

    async fn outbox_table_recover(&self, table: &AdoptedOutboxTable) -> Result<u64> {
        self.recover_rows(table).await
    }

    async fn outbox_table_has_pending(&self, table: &AdoptedOutboxTable) -> Result<bool> {
        self.has_pending_rows(table).await
    }

    async fn outbox_table_stats(&self, table: &AdoptedOutboxTable) -> Result<OutboxTableStats> {
        self.count_rows(table).await
    }

    async fn outbox_table_list(
        &self,
        table: &AdoptedOutboxTable,
        state: EventState,
        after: Option<&str>,
        limit: u32,
    ) -> Result<OutboxTablePage> {
        self.list_rows(table, state, after, limit).await
    }

    async fn outbox_table_requeue(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRequeue,
    ) -> Result<u64> {
        self.requeue_rows(table, ask).await
    }

    async fn outbox_table_discard(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxDiscard,
    ) -> Result<u64> {
        self.discard_rows(table, ask).await
    }
}

impl PostgresStore {
    /// Calls a function that changes the schema: without a timeout, and without a retry.
    async fn call_without_limits(
        &self,
        sql: &str,
        ask: &AdoptTable,
        more: &[Argument<'_>],
    ) -> Result<Row> {
        let attempts = count_in(ask.max_attempts);
        let shape = ask.shape.as_str();
        let mut arguments: Vec<Argument<'_>> = vec![
            (&ask.table, Type::TEXT),
            (&ask.id, Type::TEXT),
            (&ask.user, Type::TEXT),
            (&shape, Type::TEXT),
            (&ask.suffix, Type::TEXT),
            (&attempts, Type::INT4),
        ];
        arguments.extend(more.iter().cloned());
        let rows = self.without_limits(sql, &arguments).await?;
        rows.into_iter().next().ok_or_else(no_row)
    }

    /// Runs a statement without the limits of the pool's sessions.
    async fn without_limits(&self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>> {
        let mut session = self.calls.client().await?;
        let tx = session.transaction().await.map_err(classify)?;
        tx.batch_execute("set local lock_timeout = 0; set local statement_timeout = 0")
            .await
            .map_err(classify)?;
        let rows = tx.query_typed(sql, arguments).await.map_err(classify)?;
        tx.commit().await.map_err(classify)?;
        Ok(rows)
    }

    /// Calls a function of a table. If it does not exist, the table may have been adopted again, and the statement is read again.
    async fn adopted_rows(
        &self,
        (table, verb): (&str, &str),
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        if let Some(calls) = self.adopted.get(table) {
            match self.adopted_call((table, verb), &calls, arguments).await {
                Err(error) if error.is_schema() || error.is_invalid() => self.adopted.forget(),
                answer => return answer,
            }
        }
        let calls = Arc::new(self.adopted_calls(table).await?);
        let rows = self.adopted_call((table, verb), &calls, arguments).await?;
        self.adopted.keep(table, calls);
        Ok(rows)
    }

    async fn adopted_call(
        &self,
        (table, verb): (&str, &str),
        calls: &HashMap<String, String>,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>> {
        let Some(sql) = calls.get(verb) else {
            let needed = match verb {
                "mark" | "unmark" => Shape::Processed,
                _ => Shape::Processing,
            };
            return Err(wrong_shape(table, needed));
        };
        self.calls
            .rows(sql, arguments)
            .await
            .map_err(|error| about_the_id(verb, error))
    }

    async fn adopted_calls(&self, table: &str) -> Result<HashMap<String, String>> {
        let rows = self
            .calls
            .rows(query!(adopted_calls), &[(&table, Type::TEXT)])
            .await?;
        if rows.is_empty() {
            return Err(not_adopted(table));
        }
        rows.iter()
            .map(|row| Ok((get(row, "verb")?, get(row, "call")?)))
            .collect()
    }
}

/// Returns an error for an id or a user that does not have the column's type.
fn about_the_id(verb: &str, error: Error) -> Error {
    let code = std::error::Error::source(&error)
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>())
        .and_then(|cause| cause.as_db_error())
        .map(|said| (said.code().code().to_owned(), said.message().to_owned()));
    match code {
        Some((code, said)) if code == "22P02" || code == "22003" => {
            let field = if matches!(verb, "next" | "stats") {
                "user"
            } else {
                "id"
            };
            Error::invalid(
                field,
                format!("{field} is not of its column's type: {said}"),
            )
        }
        _ => error,
    }
}

fn first(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(no_row)
}

fn no_row() -> Error {
    Error::new(Kind::Broken, "the database answered a call with no row")
}

fn adoption(row: &Row) -> Result<Adoption> {
    let (schema, table): (String, String) = (get(row, "schema_name")?, get(row, "table_name")?);
    Ok(Adoption {
        table: format!("{schema}.{table}"),
        id: get(row, "id_column")?,
        user: get(row, "user_column")?,
        shape: Shape::from_str(get(row, "shape")?)?,
        columns: get(row, "columns")?,
        indexes: get(row, "indexes")?,
        functions: get(row, "functions")?,
        replaced: get(row, "replaced")?,
    })
}
