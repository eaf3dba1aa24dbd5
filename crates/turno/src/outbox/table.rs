//! Outbox tables: a relay publishes from a table of the application's own.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::Outbox;
use super::relay::{Relay, Source, TableSource};
use crate::Turno;
use crate::check;
use crate::error::{Error, Result};
use crate::sink::Sink;
use crate::store::{
    ADOPTED_ATTEMPTS, AdoptOutboxTable, AdoptedOutboxTable, EventState, OutboxDiscard,
    OutboxRequeue, OutboxTablePage, OutboxTableStats, not_outbox, wrong_cursor,
};

/// Default of [`Relay::poll`] for a table: inserts into it do not notify the relay.
const POLL: Duration = Duration::from_secs(1);

/// Maximum number of dead rows that one call of the store requeues, besides those that are parked behind them.
const REQUEUE_LIMIT: u32 = 1000;

/// Options to adopt a table of events as an outbox. A column that is not named is recognized by its usual names, such as `Id`,
/// `Type`, `PayloadJson`, `OccurredAt`, `DispatchedAt`, `Attempts`, `Error`, `CorrelationId` and `AggregateId`, in any case and
/// with or without underscores.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// use std::sync::Arc;
/// use turno::sink::Stdout;
///
/// let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
/// let yours = rusqlite::Connection::open(&file)?;
/// yours.execute_batch(
///     "create table OutboxMessages (Id text primary key, Type text, PayloadJson text, OccurredAt text,
///         DispatchedAt text, Attempts integer not null default 0, Error text);
///      insert into OutboxMessages (Id, Type, PayloadJson, OccurredAt)
///      values ('0190F1F4-2B3C-7D4E-8F50-112233445566', 'TicketCreatedEvent', '{}', '2026-11-17 04:48:22')",
/// )?;
///
/// turno.adopt_outbox("OutboxMessages").apply().await?;
/// let table = turno.outbox_table("OutboxMessages");
/// assert_eq!(table.stats().await?.pending, 1);
/// let published = async { while table.has_pending().await.is_ok_and(|pending| pending) {} };
/// let report = table.relay(Arc::new(Stdout::new())).run(published).await?;
/// assert_eq!(report.sent, 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before apply"]
pub struct AdoptOutbox {
    turno: Turno,
    ask: AdoptOutboxTable,
}

impl AdoptOutbox {
    pub(crate) fn new(turno: Turno, table: String) -> Self {
        AdoptOutbox {
            turno,
            ask: AdoptOutboxTable {
                table,
                max_attempts: ADOPTED_ATTEMPTS,
                ..AdoptOutboxTable::default()
            },
        }
    }

    /// Sets the column that identifies a row: a UUID or an integer.
    pub fn id(mut self, column: impl Into<String>) -> Self {
        self.ask.id = Some(column.into());
        self
    }

    /// Sets the column of the event's type.
    pub fn kind(mut self, column: impl Into<String>) -> Self {
        self.ask.kind = Some(column.into());
        self
    }

    /// Sets the column of the payload, which is JSON.
    pub fn payload(mut self, column: impl Into<String>) -> Self {
        self.ask.payload = Some(column.into());
        self
    }

    /// Sets the column of the time of creation, by which rows are ordered.
    pub fn created(mut self, column: impl Into<String>) -> Self {
        self.ask.created = Some(column.into());
        self
    }

    /// Sets a column by which rows are ordered before their time of creation, such as a sequence number. Default: none.
    pub fn order(mut self, column: impl Into<String>) -> Self {
        self.ask.order = Some(column.into());
        self
    }

    /// Sets the column that says that, or when, a row was published. Added as `processed_at` if there is none.
    pub fn processed(mut self, column: impl Into<String>) -> Self {
        self.ask.processed = Some(column.into());
        self
    }

    /// Sets the column that counts attempts. Added as `attempts` if there is none.
    pub fn attempts(mut self, column: impl Into<String>) -> Self {
        self.ask.attempts = Some(column.into());
        self
    }

    /// Sets the column of the last error. Added as `error` if there is none.
    pub fn error(mut self, column: impl Into<String>) -> Self {
        self.ask.error = Some(column.into());
        self
    }

    /// Sets the column of the ordering key. Without one, rows have no order in [`Mode::Ordered`](super::Mode::Ordered).
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.ask.key = Some(column.into());
        self
    }

    /// Sets the column of the correlation id.
    pub fn correlation_id(mut self, column: impl Into<String>) -> Self {
        self.ask.correlation_id = Some(column.into());
        self
    }

    /// Sets the number of attempts with which a row is dead. Default: 5.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.ask.max_attempts = max_attempts;
        self
    }

    /// Adds what is missing. Idempotent: a second call changes nothing.
    ///
    /// # Errors
    /// Returns an error if the table or a column is missing or unsuitable ([`Error::field`] says which argument is wrong), the
    /// role has no right to change the table, or the store is unavailable.
    pub async fn apply(self) -> Result<AdoptedOutboxTable> {
        self.check()?;
        self.turno.store().outbox_table_adopt(&self.ask).await
    }

    /// Returns an SQL script that does the same as [`AdoptOutbox::apply`]. Changes nothing.
    ///
    /// # Errors
    /// As [`AdoptOutbox::apply`].
    pub async fn print(self) -> Result<String> {
        self.check()?;
        self.turno.store().outbox_table_print(&self.ask).await
    }

    fn check(&self) -> Result<()> {
        let ask = &self.ask;
        check::name("table", &ask.table)?;
        let columns = [
            ("id", &ask.id),
            ("type", &ask.kind),
            ("payload", &ask.payload),
            ("created", &ask.created),
            ("order", &ask.order),
            ("processed", &ask.processed),
            ("attempts", &ask.attempts),
            ("error", &ask.error),
            ("key", &ask.key),
            ("correlation_id", &ask.correlation_id),
        ];
        for (field, column) in columns {
            check::optional_name(field, column.as_deref())?;
        }
        if !(1..=u32::from(check::MAX_ATTEMPTS)).contains(&ask.max_attempts) {
            return Err(Error::invalid(
                "max_attempts",
                format!(
                    "max_attempts is {}, and must be between 1 and {}",
                    ask.max_attempts,
                    check::MAX_ATTEMPTS
                ),
            ));
        }
        Ok(())
    }
}

/// The handle of a table that was adopted as an outbox.
#[derive(Debug, Clone)]
pub struct OutboxTable {
    turno: Turno,
    table: String,
    user: Option<String>,
    reason: Option<String>,
}

impl OutboxTable {
    pub(crate) fn new(turno: Turno, table: String) -> Self {
        OutboxTable {
            turno,
            table,
            user: None,
            reason: None,
        }
    }

    /// Sets who requeues, for the [history](Turno::history). Default: the user of the [settings](crate::Builder::user).
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the reason of a requeue or a discard, for the [history](Turno::history), at most 1000 bytes. Default: none.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Creates a relay, which publishes the rows of the table to a sink. Nothing happens before [`Relay::run`].
    ///
    /// It polls the table, by default once per second. The default of its [`Relay::max_attempts`] is that of the adoption, and
    /// [`Relay::archive`] has no effect: rows stay in the table.
    pub fn relay(&self, sink: Arc<dyn Sink>) -> Relay {
        let source = Source::Table(TableSource::new(self.table.clone()));
        Relay::new(Outbox::new(self.turno.clone()), sink)
            .source(source)
            .poll(POLL)
    }

    /// Returns the number of rows that are not processed, per state. Reads no processed row, and at most 100,000 others.
    ///
    /// # Errors
    /// Returns an error if the table is not adopted as an outbox or the store is unavailable.
    pub async fn stats(&self) -> Result<OutboxTableStats> {
        let table = self.adopted().await?;
        self.turno.store().outbox_table_stats(&table).await
    }

    /// Returns whether a row is pending or claimed by a relay. Cheaper than [`OutboxTable::stats`]: it ends with the first such
    /// row.
    ///
    /// # Errors
    /// As [`OutboxTable::stats`].
    pub async fn has_pending(&self) -> Result<bool> {
        let table = self.adopted().await?;
        self.turno.store().outbox_table_has_pending(&table).await
    }

    /// Returns one page of the rows in one state, in the order of their creation. `after` is [`OutboxTablePage::next`] of the
    /// previous page. Rows that change their state between two pages do not shift the others. A row without a time of creation
    /// can only be on the first page.
    ///
    /// # Errors
    /// As [`OutboxTable::stats`]; also if `after` is not a cursor of this table.
    pub async fn list(
        &self,
        state: EventState,
        after: Option<&str>,
        limit: u32,
    ) -> Result<OutboxTablePage> {
        let table = self.adopted().await?;
        let after = after
            .map(|cursor| place(cursor, &table).ok_or_else(wrong_cursor))
            .transpose()?;
        let limit = limit.clamp(1, check::MAX_PAGE);
        let store = self.turno.store();
        let mut page = store
            .outbox_table_list(&table, state, after.as_deref(), limit)
            .await?;
        page.next = page.next.map(|place| URL_SAFE_NO_PAD.encode(place));
        Ok(page)
    }

    /// Makes dead and blocked rows pending again, the given ones or all, with all their attempts, and those that are parked
    /// behind one. Returns the number of rows. The history gets an entry for about each thousand, with the name of the table, the
    /// [user](OutboxTable::user) and the [reason](OutboxTable::reason).
    ///
    /// # Errors
    /// As [`OutboxTable::stats`]; also if the user or the reason is invalid, or the role has no right to write the history.
    pub async fn requeue(&self, ids: Option<&[Uuid]>) -> Result<u64> {
        if let Some(ids) = ids {
            check::item_count("ids", ids.len())?;
        }
        let user = self.user.as_ref();
        let user = user.or(self.turno.settings().user.as_ref()).cloned();
        check::operator(user.as_deref(), self.reason.as_deref())?;
        let table = self.adopted().await?;
        let ask = OutboxRequeue {
            ids: ids.map(<[Uuid]>::to_vec),
            limit: REQUEUE_LIMIT,
            user,
            reason: self.reason.clone(),
        };
        let mut all = 0;
        loop {
            let store = self.turno.store();
            let many = store.outbox_table_requeue(&table, &ask).await?;
            all += many;
            if many < u64::from(REQUEUE_LIMIT) {
                return Ok(all);
            }
        }
    }

    /// Discards rows: they are never published. The rows stay in the table, marked as processed, and their column of errors says by
    /// whom they were discarded, and why. Rows that were blocked behind one continue; parked ones wait to be requeued. Rows that
    /// are processed, or that a relay has claimed, are left out. Returns the number of rows. The history gets an entry with the
    /// name of the table, the user and the [reason](OutboxTable::reason).
    ///
    /// # Errors
    /// As [`OutboxTable::requeue`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("app.db");
    /// # let turno = turno::Turno::connect(&format!("sqlite:{}", file.display())).await?;
    /// # rusqlite::Connection::open(&file)?.execute_batch(
    /// #     "create table outbox (id integer primary key, type text, payload text, created_at text);
    /// #      insert into outbox (type, payload, created_at) values ('TicketCreatedEvent', '{}', '2026-11-17 04:48:22')",
    /// # )?;
    /// use turno::outbox::EventState;
    ///
    /// turno.adopt_outbox("outbox").apply().await?;
    /// let table = turno.outbox_table("outbox");
    /// let page = table.list(EventState::Pending, None, 10).await?;
    /// let operator = table.clone().reason("the ticket was a test");
    /// assert_eq!(operator.discard(&[page.events[0].id], "ana").await?, 1);
    /// assert!(!table.has_pending().await?);
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self, ids: &[Uuid], user: &str) -> Result<u64> {
        check::item_count("ids", ids.len())?;
        check::operator(Some(user), self.reason.as_deref())?;
        let table = self.adopted().await?;
        let ask = OutboxDiscard {
            ids: ids.to_vec(),
            user: user.to_owned(),
            reason: self.reason.clone(),
        };
        self.turno.store().outbox_table_discard(&table, &ask).await
    }

    /// Removes what [`Turno::adopt_outbox`] added to the table, and nothing else. Returns what was removed.
    ///
    /// # Errors
    /// As [`OutboxTable::stats`]; also if something else depends on what was added. Then nothing is changed.
    pub async fn unadopt(&self) -> Result<AdoptedOutboxTable> {
        check::name("table", &self.table)?;
        self.turno.store().outbox_table_undo(&self.table).await
    }

    /// Returns the adoption; `None` if the table exists and is not adopted as an outbox.
    ///
    /// # Errors
    /// Returns an error if the table does not exist or the store is unavailable.
    pub async fn find(&self) -> Result<Option<AdoptedOutboxTable>> {
        check::name("table", &self.table)?;
        self.turno.store().outbox_table_find(&self.table).await
    }

    async fn adopted(&self) -> Result<AdoptedOutboxTable> {
        self.find().await?.ok_or_else(|| not_outbox(&self.table))
    }
}

/// Returns the place of a row that a cursor stands for; `None` if it cannot be one of this table.
fn place(cursor: &str, table: &AdoptedOutboxTable) -> Option<String> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).ok()?;
    (values.len() == table.place().len()).then_some(text)
}
