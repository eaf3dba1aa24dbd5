//! Outbox tables: the statements are templates in `queries/adopt.sql`, which are filled in with the names of the table.
//!
//! They run with the caller's rights on the caller's own table. Only operator actions use a function of the schema, for the history.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::error::sqlstate;
use super::interval::Interval;
use super::outbox::after_refusals;
use super::rows::{big_count, count, get};
use super::{PostgresStore, classify};
use crate::error::{Error, Result};
use crate::store::sql_text::{fill, literal, quote};
use crate::store::*;

/// Columns that a relay needs, with their types.
const RELAY_COLUMNS: [(&str, &str); 7] = [
    (RECORD_COLUMN, "uuid"),
    ("relay_until", "timestamp with time zone"),
    ("relay_due_at", "timestamp with time zone"),
    ("relay_doubtful", "integer"),
    ("relay_dead", "text"),
    ("relay_name", "text"),
    ("relay_at", "timestamp with time zone"),
];

/// Definitions of a column that must not be null.
const COUNT: &str = "integer not null default 0";

/// Two adoptions at the same time run one after the other, as those of `turno.adopt` do. A table that is in use must not keep its
/// other users waiting.
const BEGIN: &str = "set local lock_timeout = '5s'; set local statement_timeout = 0; \
     select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('turno.adopt', 0))";

/// A table of the user's own.
#[derive(Debug)]
struct Table {
    schema: String,
    name: String,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: String,
    max_length: Option<i32>,
    comment: Option<String>,
    is_unique: bool,
}

/// An adoption, and the statements that make it.
struct Plan {
    table: AdoptedOutboxTable,
    steps: Vec<String>,
}

impl PostgresStore {
    pub(super) async fn adopt_outbox(&self, ask: &AdoptOutboxTable) -> Result<AdoptedOutboxTable> {
        let plan = self.outbox_plan(ask).await?;
        self.change(&plan.steps).await?;
        Ok(plan.table)
    }

    pub(super) async fn print_outbox(&self, ask: &AdoptOutboxTable) -> Result<String> {
        let plan = self.outbox_plan(ask).await?;
        Ok(format!(
            "begin;\n\n{};\n\ncommit;\n",
            plan.steps.join(";\n\n")
        ))
    }

    pub(super) async fn undo_outbox(&self, name: &str) -> Result<AdoptedOutboxTable> {
        let table = self.user_table(name).await?;
        let mut adopted = table.adopted().ok_or_else(|| not_outbox(name))?;
        adopted.added.retain(|column| table.is_signed(column));
        let quoted = table.quoted();
        let schema = quote(&table.schema);
        let indexes = adopted.indexes.iter();
        let mut steps: Vec<String> = indexes
            .map(|index| format!("drop index if exists {schema}.{}", quote(index)))
            .collect();
        steps.extend(
            adopted
                .added
                .iter()
                .map(|column| format!("alter table {quoted} drop column {}", quote(column))),
        );
        self.change(&steps).await?;
        Ok(adopted)
    }

    pub(super) async fn find_outbox(&self, name: &str) -> Result<Option<AdoptedOutboxTable>> {
        Ok(self.user_table(name).await?.adopted())
    }

    async fn outbox_plan(&self, ask: &AdoptOutboxTable) -> Result<Plan> {
        self.user_table(&ask.table).await?.plan(ask)
    }

    async fn user_table(&self, name: &str) -> Result<Table> {
        let rows = self
            .calls
            .rows(query!(outbox_table_columns), &[(&name, Type::TEXT)])
            .await
            .map_err(|error| match sqlstate(&error) {
                // It is no name in SQL's eyes, so it is the name of no table.
                Some("42601" | "42602" | "0A000" | "22023") => no_table(name),
                _ => error,
            })?;
        let Some(first) = rows.first() else {
            return Err(no_table(name));
        };
        if !get::<bool>(first, "is_ordinary")? {
            return Err(no_table(name));
        }
        let column = |row: &Row| {
            Ok(Column {
                name: get(row, "name")?,
                kind: get(row, "type")?,
                max_length: get(row, "max_length")?,
                comment: get(row, "comment")?,
                is_unique: get(row, "is_unique")?,
            })
        };
        Ok(Table {
            schema: get(first, "schema_name")?,
            name: get(first, "table_name")?,
            columns: rows.iter().map(column).collect::<Result<_>>()?,
        })
    }

    /// Changes the table, all or nothing, without the limits of the pool's sessions.
    async fn change(&self, steps: &[String]) -> Result<()> {
        let mut session = self.calls.client().await?;
        let tx = session.transaction().await.map_err(classify)?;
        tx.batch_execute(BEGIN).await.map_err(classify)?;
        for step in steps {
            tx.batch_execute(step).await.map_err(classify)?;
        }
        tx.commit().await.map_err(classify)
    }

    pub(super) async fn claim_rows(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxClaim,
    ) -> Result<Vec<OutboxRow>> {
        let sql = filled(table, query!(outbox_table_claim));
        let claim = async |candidates: Option<i64>| {
            self.calls
                .rows(
                    &sql,
                    &[
                        (&ask.relay, Type::TEXT),
                        (&i64::from(ask.limit.min(MAX_BATCH)), Type::INT8),
                        (&Interval(ask.lease), Type::INTERVAL),
                        (&(ask.order == Order::ByKey), Type::BOOL),
                        (&ask.token, Type::UUID),
                        (&candidates, Type::INT8),
                    ],
                )
                .await
        };
        let mut rows = claim(Some(CANDIDATES.into())).await?;
        if rows.is_empty() {
            rows = claim(None).await?;
        }
        rows.iter()
            .map(|row| outbox_row(row, get(row, "parked")?))
            .collect()
    }

    pub(super) async fn settle_rows(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRowsSettle,
    ) -> Result<OutboxSettled> {
        let refused: Vec<&str> = ask.refused.iter().map(|(id, ..)| id.as_str()).collect();
        // PostgreSQL's text cannot contain a zero.
        let errors = ask.refused.iter().map(|(_, error, _)| error);
        let errors: Vec<String> = errors.map(|it| it.replace('\0', "\u{fffd}")).collect();
        let (pauses, dead) = after_refusals(ask.refused.iter().map(|(.., next)| *next));
        let deferred: Vec<&str> = ask.deferred.iter().map(|(id, _)| id.as_str()).collect();
        let delays: Vec<Interval> = ask.deferred.iter().map(|(_, it)| Interval(*it)).collect();
        let row = self
            .calls
            .row(
                &filled(table, query!(outbox_table_settle)),
                &[
                    (&ask.token, Type::UUID),
                    (&ask.sent, Type::TEXT_ARRAY),
                    (&refused, Type::TEXT_ARRAY),
                    (&errors, Type::TEXT_ARRAY),
                    (&pauses, Type::INTERVAL_ARRAY),
                    (&dead, Type::TEXT_ARRAY),
                    (&ask.doubtful, Type::TEXT_ARRAY),
                    (&deferred, Type::TEXT_ARRAY),
                    (&delays, Type::INTERVAL_ARRAY),
                ],
            )
            .await?;
        let (sent, refused) = (big_count(&row, "sent")?, big_count(&row, "refused")?);
        Ok(OutboxSettled {
            sent,
            refused,
            returned: big_count(&row, "returned")?,
            stale: ask.settled().saturating_sub(sent + refused),
        })
    }

    pub(super) async fn extend_rows(
        &self,
        table: &AdoptedOutboxTable,
        token: Uuid,
        lease: Duration,
    ) -> Result<bool> {
        let sql = filled(table, query!(outbox_table_extend));
        let row = self
            .calls
            .row(
                &sql,
                &[(&token, Type::UUID), (&Interval(lease), Type::INTERVAL)],
            )
            .await?;
        Ok(big_count(&row, "many")? > 0)
    }

    pub(super) async fn recover_rows(&self, table: &AdoptedOutboxTable) -> Result<u64> {
        let sql = filled(table, query!(outbox_table_recover));
        big_count(&self.calls.row(&sql, &[]).await?, "many")
    }

    pub(super) async fn has_pending_rows(&self, table: &AdoptedOutboxTable) -> Result<bool> {
        let sql = filled(table, query!(outbox_table_has_pending));
        get(&self.calls.row(&sql, &[]).await?, "has_pending")
    }

    pub(super) async fn count_rows(&self, table: &AdoptedOutboxTable) -> Result<OutboxTableStats> {
        let sql = filled(table, query!(outbox_table_stats));
        let row = self.calls.row(&sql, &[]).await?;
        let unprocessed = big_count(&row, "unprocessed")?;
        Ok(OutboxTableStats {
            unprocessed,
            more: unprocessed >= u64::from(MAX_COUNTED_ROWS),
            pending: big_count(&row, "pending")?,
            scheduled: big_count(&row, "scheduled")?,
            processing: big_count(&row, "processing")?,
            dead: big_count(&row, "dead")?,
            blocked: big_count(&row, "blocked")?,
            parked_keys: big_count(&row, "parked_keys")?,
            attempts: big_count(&row, "attempts")?,
            oldest_pending: get::<Option<Interval>>(&row, "oldest_pending")?.map(|age| age.0),
        })
    }

    pub(super) async fn list_rows(
        &self,
        table: &AdoptedOutboxTable,
        state: EventState,
        after: Option<&str>,
        limit: u32,
    ) -> Result<OutboxTablePage> {
        let rows = self
            .calls
            .rows(
                &filled(table, &list_template(query!(outbox_table_list), state)),
                &[
                    (&state.as_str(), Type::TEXT),
                    (&after, Type::TEXT),
                    (&i64::from(limit), Type::INT8),
                ],
            )
            .await
            .map_err(|error| match sqlstate(&error) {
                // A value of the cursor does not have the type of its column.
                Some(code) if after.is_some() && code.starts_with("22") => wrong_cursor(),
                _ => error,
            })?;
        let rows: Vec<ListedRow> = rows
            .iter()
            .map(|row| {
                Ok(ListedRow {
                    place: get(row, "place")?,
                    row: outbox_row(row, false)?,
                    has_time: get::<Option<Timestamp>>(row, "emitted_at")?.is_some(),
                    by: get(row, "by")?,
                    at: get(row, "at")?,
                    settled_at: get(row, "settled_at")?,
                    error: get(row, "error")?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(ListedRow::page(rows, table, state, limit))
    }

    pub(super) async fn requeue_rows(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxRequeue,
    ) -> Result<u64> {
        let ids = ask.ids.as_deref().map(|ids| table.row_ids(ids));
        let row = self
            .calls
            .row(
                &filled(table, query!(outbox_table_requeue)),
                &[
                    (&ids, Type::TEXT_ARRAY),
                    (&i64::from(ask.limit), Type::INT8),
                    (&table.table, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }

    pub(super) async fn discard_rows(
        &self,
        table: &AdoptedOutboxTable,
        ask: &OutboxDiscard,
    ) -> Result<u64> {
        let row = self
            .calls
            .row(
                &filled(table, query!(outbox_table_discard)),
                &[
                    (&table.row_ids(&ask.ids), Type::TEXT_ARRAY),
                    (&discard_error(ask), Type::TEXT),
                    (&table.table, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }
}

impl Table {
    fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn is_signed(&self, name: &str) -> bool {
        let comment = self.column(name).and_then(|it| it.comment.as_deref());
        comment.is_some_and(|comment| comment.starts_with(SIGN))
    }

    /// Returns the adoption that the table has a record of, if its columns still exist.
    fn adopted(&self) -> Option<AdoptedOutboxTable> {
        let comment = self.column(RECORD_COLUMN)?.comment.as_deref()?;
        Some(self.with(Record::read(comment)?))
    }

    fn with(&self, record: Record) -> AdoptedOutboxTable {
        let Record {
            max_attempts,
            columns,
            added,
            indexes,
        } = record;
        let kind = |name: &str, default: &str| {
            let found = self.column(name).map(|column| column.kind.clone());
            found.unwrap_or_else(|| default.to_owned())
        };
        let place = columns.place().into_iter();
        let place_types = place.map(|name| kind(name, "text")).collect();
        let length = self.column(&columns.error).and_then(|it| it.max_length);
        let facts = TableFacts {
            quoted: self.quoted(),
            id_type: kind(&columns.id, "text"),
            place_types,
            created_type: kind(&columns.created, TIMESTAMPTZ),
            processed_type: kind(&columns.processed, TIMESTAMPTZ),
            error_length: length
                .and_then(|length| u32::try_from(length).ok())
                .unwrap_or(ERROR_LENGTH),
        };
        AdoptedOutboxTable {
            table: format!("{}.{}", self.schema, self.name),
            columns,
            max_attempts,
            added,
            indexes,
            facts,
        }
    }

    fn plan(&self, ask: &AdoptOutboxTable) -> Result<Plan> {
        let found: Vec<FoundColumn> = self
            .columns
            .iter()
            .filter(|column| !RELAY_COLUMNS.iter().any(|(name, _)| *name == column.name))
            .map(|column| FoundColumn {
                name: column.name.clone(),
            })
            .collect();
        let columns = ask.columns(&found)?;
        self.check(&columns)?;
        let old = self.adopted();
        let quoted = self.quoted();
        let (mut steps, mut added) = (Vec::new(), Vec::new());
        for (name, definition) in wanted(&columns) {
            if self.column(name).is_none() {
                steps.push(format!(
                    "alter table {quoted} add column {} {definition}",
                    quote(name)
                ));
                steps.push(comment(&quoted, name, SIGN));
                added.push(name.to_owned());
            } else if self.is_signed(name) {
                added.push(name.to_owned());
            } else if RELAY_COLUMNS.iter().any(|(relay, _)| *relay == name) {
                return Err(taken(&quoted, name));
            }
        }
        let mut table = self.with(Record {
            max_attempts: ask.max_attempts,
            columns,
            added,
            indexes: Vec::new(),
        });
        let wanted = table.indexes(&self.name, &is_open(&table, ""));
        table.indexes = wanted.iter().map(|(name, _)| name.clone()).collect();
        let schema = quote(&self.schema);
        // With other columns the indexes have the same names and other definitions.
        if let Some(old) = old.filter(|old| old.columns != table.columns) {
            let drop = |index: &String| format!("drop index if exists {schema}.{}", quote(index));
            steps.extend(old.indexes.iter().map(drop));
        }
        steps.extend(wanted.iter().map(|(name, definition)| {
            format!(
                "create index if not exists {} on {quoted} {definition}",
                quote(name)
            )
        }));
        steps.push(comment(&quoted, RECORD_COLUMN, &table.record().text()?));
        Ok(Plan { table, steps })
    }

    /// Checks the types of the columns that are there already.
    fn check(&self, columns: &OutboxColumns) -> Result<()> {
        if !self.column(&columns.id).is_some_and(|id| id.is_unique) {
            return Err(not_unique(&self.name, &columns.id));
        }
        let kind = |name: &str| self.column(name).map(|column| column.kind.as_str());
        let rules: [(&'static str, &str, &[&str], &str); 4] = [
            (
                "id",
                &columns.id,
                &["uuid", "bigint", "integer", "text", "character varying"],
                "a uuid, an integer or a text with a UUID",
            ),
            (
                "processed",
                &columns.processed,
                &[TIMESTAMPTZ, TIMESTAMP, "boolean"],
                "a timestamp or a boolean",
            ),
            (
                "attempts",
                &columns.attempts,
                &["integer", "bigint", "smallint"],
                "an integer",
            ),
            (
                "error",
                &columns.error,
                &["text", "character varying"],
                "a text",
            ),
        ];
        for (field, column, allowed, needed) in rules {
            if let Some(kind) = kind(column)
                && !allowed.contains(&kind)
            {
                return Err(wrong_type(field, column, kind, needed));
            }
        }
        Ok(())
    }
}

const TIMESTAMPTZ: &str = "timestamp with time zone";
const TIMESTAMP: &str = "timestamp without time zone";

/// Names and definitions of all columns that adopt adds if they are missing.
fn wanted(columns: &OutboxColumns) -> Vec<(&str, &'static str)> {
    let mut wanted: Vec<(&str, &'static str)> = vec![
        (columns.processed.as_str(), TIMESTAMPTZ),
        (columns.attempts.as_str(), COUNT),
        (columns.error.as_str(), "text"),
    ];
    wanted.extend(RELAY_COLUMNS.map(|(name, kind)| match name {
        "relay_doubtful" => (name, COUNT),
        _ => (name, kind),
    }));
    wanted
}

fn comment(quoted: &str, column: &str, text: &str) -> String {
    format!(
        "comment on column {quoted}.{} is {}",
        quote(column),
        literal(text)
    )
}

fn taken(table: &str, column: &str) -> Error {
    Error::invalid(
        "table",
        format!("table {table} has a column {column} of its own, which adopt would add: rename it"),
    )
}

/// Returns the condition that a row is not processed.
fn is_open(table: &AdoptedOutboxTable, alias: &str) -> String {
    let column = quote(&table.columns.processed);
    let dot = if alias.is_empty() { "" } else { "." };
    let test = match table.facts.processed_type.as_str() {
        "boolean" => "is not true",
        _ => "is null",
    };
    format!("{alias}{dot}{column} {test}")
}

/// Returns a statement with the names of the table.
fn filled(table: &AdoptedOutboxTable, template: &str) -> String {
    fill(template, &|name, alias| match name {
        "open" => is_open(table, alias),
        "state" => filled(table, query!(outbox_table_state)),
        "after" => {
            let types = table.facts.place_types.iter().enumerate();
            let values = types.map(|(at, kind)| format!("($2::json ->> {at})::{kind}"));
            values.collect::<Vec<_>>().join(", ")
        }
        "key" | "correlation_id" => match table.placeholder(name, alias) {
            null if null == "null" => "null::text".to_owned(),
            column => column,
        },
        "created" if !alias.is_empty() => {
            let column = format!("{alias}.{}", quote(&table.columns.created));
            match table.facts.created_type.as_str() {
                TIMESTAMPTZ => column,
                TIMESTAMP => format!("({column} at time zone 'UTC')"),
                _ => "null::timestamptz".to_owned(),
            }
        }
        "processed_now" => match table.facts.processed_type.as_str() {
            "boolean" => "true".to_owned(),
            TIMESTAMP => "clock_timestamp() at time zone 'UTC'".to_owned(),
            _ => "clock_timestamp()".to_owned(),
        },
        _ => table.placeholder(name, alias),
    })
}

fn outbox_row(row: &Row, parked: bool) -> Result<OutboxRow> {
    Ok(OutboxRow {
        id: get(row, "row_id")?,
        kind: get::<Option<String>>(row, "type")?.unwrap_or_default(),
        key: get(row, "key")?,
        correlation_id: get(row, "correlation_id")?,
        payload: get::<Option<String>>(row, "payload")?.unwrap_or_default(),
        emitted_at: get::<Option<Timestamp>>(row, "emitted_at")?.unwrap_or(Timestamp::UNIX_EPOCH),
        refused: count(row, "refused")?,
        doubtful: count(row, "doubtful")?,
        parked,
    })
}
