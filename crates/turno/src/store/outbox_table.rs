//! Outbox tables: a table of the application's own, from which a relay publishes as it is.
//!
//! The application's columns stay the truth: a row is published if its column *processed* is empty and it has attempts left. Adopt
//! adds columns that begin with `relay_`, for claims. The record of an adoption is in the table itself, at the column
//! [`RECORD_COLUMN`], so it survives a dump and a restore of the table alone.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::outbox::Envelope;
use super::sql_text::quote;
use super::{
    AfterRefusal, AttemptError, ClaimedEvent, EventState, EventView, ItemId, OutboxDiscard,
    OutboxSettle, OutboxTablePage,
};
use crate::error::{Error, Kind, Result};

/// Begin of the text by which the columns that adopt added are recognized. In [`RECORD_COLUMN`] the record follows.
pub(crate) const SIGN: &str = "turno outbox";

/// The column that has the record of the adoption.
pub(crate) const RECORD_COLUMN: &str = "relay_token";

/// Maximum length of a stored error, in characters.
pub(crate) const ERROR_LENGTH: u32 = 4000;

/// Number of due rows that a claim looks at first. If all of them wait for other rows of their keys, it looks at all.
pub(crate) const CANDIDATES: u32 = 1000;

/// Maximum number of rows that are counted.
pub(crate) const MAX_COUNTED_ROWS: u32 = 100_000;

/// Parameters of `AdoptStore::outbox_table_adopt`. A column that is not named is recognized by its usual names.
#[derive(Debug, Clone, Default)]
pub struct AdoptOutboxTable {
    /// The name of the table.
    pub table: String,
    /// The column that identifies a row: a UUID or an integer.
    pub id: Option<String>,
    /// The column of the event's type.
    pub kind: Option<String>,
    /// The column of the payload, which is JSON.
    pub payload: Option<String>,
    /// The column of the time of creation.
    pub created: Option<String>,
    /// The column that orders rows before their time of creation, such as a sequence number.
    pub order: Option<String>,
    /// The column that says that, or when, a row was published.
    pub processed: Option<String>,
    /// The column that counts attempts.
    pub attempts: Option<String>,
    /// The column of the last error.
    pub error: Option<String>,
    /// The column of the ordering key.
    pub key: Option<String>,
    /// The column of the correlation id.
    pub correlation_id: Option<String>,
    /// A row with this many attempts is dead.
    pub max_attempts: u32,
}

/// The columns of an outbox table, by their names in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutboxColumns {
    /// Identifies a row.
    pub id: String,
    /// The event's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The payload.
    pub payload: String,
    /// The time of creation.
    pub created: String,
    /// Orders rows before their time of creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Whether or when a row was published.
    pub processed: String,
    /// The number of attempts.
    pub attempts: String,
    /// The last error.
    pub error: String,
    /// The ordering key. Without it, rows have no order in mode `ordered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

impl OutboxColumns {
    /// Returns the columns that order rows.
    pub(crate) fn place(&self) -> Vec<&str> {
        let OutboxColumns {
            order, created, id, ..
        } = self;
        order
            .iter()
            .chain([created, id])
            .map(String::as_str)
            .collect()
    }
}

/// The record of an adoption, as it is stored in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) max_attempts: u32,
    pub(crate) columns: OutboxColumns,
    pub(crate) added: Vec<String>,
    pub(crate) indexes: Vec<String>,
}

impl Record {
    /// Returns the record as the text that is stored.
    pub(crate) fn text(&self) -> Result<String> {
        serde_json::to_string(self)
            .map(|json| format!("{SIGN} {json}"))
            .map_err(|error| {
                Error::caused(Kind::Broken, "the record cannot be written as JSON", error)
            })
    }

    /// Returns the record of a stored text; `None` if the text is not one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text.strip_prefix(SIGN)?.trim_start()).ok()
    }
}

/// An adopted outbox table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AdoptedOutboxTable {
    /// The table, with its schema if the store has schemas.
    pub table: String,
    /// The columns of the application that the relay uses.
    #[serde(flatten)]
    pub columns: OutboxColumns,
    /// A row with this many attempts is dead.
    pub max_attempts: u32,
    /// The columns that were added, now or before.
    #[serde(rename = "columns")]
    pub added: Vec<String>,
    /// The indexes that were added.
    pub indexes: Vec<String>,
    /// What the statements need to know.
    #[serde(skip)]
    pub(crate) facts: TableFacts,
}

/// Facts about a table that its statements depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableFacts {
    /// The table as SQL writes it.
    pub(crate) quoted: String,
    pub(crate) id_type: String,
    /// Types of the columns that order rows.
    pub(crate) place_types: Vec<String>,
    pub(crate) created_type: String,
    pub(crate) processed_type: String,
    /// Maximum length of an error, in characters.
    pub(crate) error_length: u32,
}

impl AdoptedOutboxTable {
    /// Returns the value of a placeholder that both stores have.
    pub(crate) fn placeholder(&self, name: &str, alias: &str) -> String {
        let columns = &self.columns;
        let of = |column: &str| format!("{alias}.{}", quote(column));
        let or_null = |column: &Option<String>| match column {
            Some(column) => of(column),
            None => "null".to_owned(),
        };
        match name {
            "table" => self.facts.quoted.clone(),
            "id" => quote(&columns.id),
            "type" => quote(&columns.kind),
            "payload" => quote(&columns.payload),
            "created" => quote(&columns.created),
            "processed" => quote(&columns.processed),
            "attempts" => quote(&columns.attempts),
            "error" => quote(&columns.error),
            "key" => or_null(&columns.key),
            "correlation_id" => or_null(&columns.correlation_id),
            "place" => self
                .place()
                .iter()
                .map(|it| of(it))
                .collect::<Vec<_>>()
                .join(", "),
            "max_attempts" => self.max_attempts.to_string(),
            "id_type" => self.facts.id_type.clone(),
            "error_length" => self.facts.error_length.to_string(),
            "max_counted_rows" => MAX_COUNTED_ROWS.to_string(),
            // Not reachable: the templates are constants, and tests run each of them.
            other => format!("{{{other}}}"),
        }
    }

    /// Returns the columns that order rows.
    pub(crate) fn place(&self) -> Vec<&str> {
        self.columns.place()
    }

    /// Returns names and definitions of the indexes. `is_open` is the condition of rows that are not processed.
    pub(crate) fn indexes(&self, name: &str, is_open: &str) -> Vec<(String, String)> {
        let list = |names: &[&str]| -> String {
            let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
            quoted.join(", ")
        };
        let place = self.place();
        let mut wanted = vec![
            ("pending", format!("({}) where {is_open}", list(&place))),
            (
                "claims",
                format!("({RECORD_COLUMN}) where {RECORD_COLUMN} is not null and {is_open}"),
            ),
        ];
        if let Some(key) = &self.columns.key {
            let with_key: Vec<&str> = std::iter::once(key.as_str()).chain(place).collect();
            wanted.push(("keys", format!("({}) where {is_open}", list(&with_key))));
        }
        wanted
            .into_iter()
            .map(|(what, definition)| (index_name(name, what), definition))
            .collect()
    }

    pub(crate) fn record(&self) -> Record {
        Record {
            max_attempts: self.max_attempts,
            columns: self.columns.clone(),
            added: self.added.clone(),
            indexes: self.indexes.clone(),
        }
    }

    /// Returns the id of the event of a row: the row's own if it is a UUID, and one that contains it if it is a number. Nil for
    /// other texts: such a row cannot be published.
    pub(crate) fn event_id(&self, row: &str) -> Uuid {
        if let Ok(id) = Uuid::try_parse(row) {
            return id;
        }
        match row.parse::<u64>() {
            Ok(number) if number <= MAX_NUMBER => {
                let mut bytes = self.id_prefix();
                bytes[8..].copy_from_slice(&number.to_be_bytes());
                uuid::Builder::from_custom_bytes(bytes).into_uuid()
            }
            _ => Uuid::nil(),
        }
    }

    /// Returns the row of an event id, as text in lower case.
    pub(crate) fn row_id(&self, event: Uuid) -> String {
        let (_, low) = event.as_u64_pair();
        let number = low & MAX_NUMBER;
        if self.event_id(&number.to_string()) == event {
            number.to_string()
        } else {
            event.to_string()
        }
    }

    pub(crate) fn row_ids(&self, events: &[Uuid]) -> Vec<String> {
        events.iter().map(|id| self.row_id(*id)).collect()
    }

    /// The first half of the ids of this table's events, if its own ids are numbers.
    fn id_prefix(&self) -> [u8; 16] {
        let digest = Sha256::digest(self.table.as_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&digest[..8]);
        bytes
    }
}

/// Largest number in an event's id: two bits of its half are the variant of the UUID.
const MAX_NUMBER: u64 = (1 << 62) - 1;

/// Returns the name of an index, cut to what PostgreSQL allows.
fn index_name(table: &str, what: &str) -> String {
    let mut end = table.len().min(40);
    while !table.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}_turno_{what}", &table[..end])
}

/// A column as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct FoundColumn {
    pub(crate) name: String,
}

/// Names by which columns are recognized, in lower case and without underscores.
const ID: &[&str] = &["id", "messageid", "eventid"];
const TYPE: &[&str] = &["type", "eventtype", "messagetype"];
const PAYLOAD: &[&str] = &["payloadjson", "payload", "content", "data", "body"];
const CREATED: &[&str] = &[
    "occurredat",
    "occurredon",
    "occurredonutc",
    "occurredatutc",
    "createdat",
    "createdon",
    "createdonutc",
    "createdatutc",
    "created",
    "timestamp",
];
const PROCESSED: &[&str] = &[
    "dispatchedat",
    "processedat",
    "processedon",
    "processedonutc",
    "processedatutc",
    "publishedat",
    "sentat",
    "processed",
];
const ATTEMPTS: &[&str] = &["attempts", "attemptcount", "retrycount", "retries"];
const ERROR: &[&str] = &["error", "lasterror", "errormessage"];
const KEY: &[&str] = &["aggregateid", "orderingkey", "partitionkey"];
const CORRELATION_ID: &[&str] = &["correlationid"];

/// The names of the columns that adopt adds if the table has none for that purpose.
const NEW_PROCESSED: &str = "processed_at";
const NEW_ATTEMPTS: &str = "attempts";
const NEW_ERROR: &str = "error";

impl AdoptOutboxTable {
    /// Returns the columns of the table: those that were named, those that are recognized, and those that adopt adds.
    pub(crate) fn columns(&self, found: &[FoundColumn]) -> Result<OutboxColumns> {
        let named = |field: &'static str, asked: &Option<String>, usual: &[&str]| match asked {
            Some(name) => self.named(found, field, name).map(Some),
            None => Ok(recognized(found, usual)),
        };
        let required = |field: &'static str, asked: &Option<String>, usual: &[&str]| {
            named(field, asked, usual)?.ok_or_else(|| self.missing(found, field))
        };
        let or_new = |field, asked, usual, new: &str| {
            Ok::<_, Error>(named(field, asked, usual)?.unwrap_or_else(|| new.to_owned()))
        };
        Ok(OutboxColumns {
            id: required("id", &self.id, ID)?,
            kind: required("type", &self.kind, TYPE)?,
            payload: required("payload", &self.payload, PAYLOAD)?,
            created: required("created", &self.created, CREATED)?,
            order: named("order", &self.order, &[])?,
            processed: or_new("processed", &self.processed, PROCESSED, NEW_PROCESSED)?,
            attempts: or_new("attempts", &self.attempts, ATTEMPTS, NEW_ATTEMPTS)?,
            error: or_new("error", &self.error, ERROR, NEW_ERROR)?,
            key: named("key", &self.key, KEY)?,
            correlation_id: named("correlation_id", &self.correlation_id, CORRELATION_ID)?,
        })
    }

    fn named(&self, found: &[FoundColumn], field: &'static str, name: &str) -> Result<String> {
        let exact = found.iter().find(|column| column.name == name);
        let other = || {
            found
                .iter()
                .find(|column| column.name.eq_ignore_ascii_case(name))
        };
        let column = exact.or_else(other).ok_or_else(|| {
            Error::invalid(
                field,
                format!(
                    "{field} is {name}, and table {} has no such column: it has {}",
                    self.table,
                    listed(found)
                ),
            )
        })?;
        Ok(column.name.clone())
    }

    fn missing(&self, found: &[FoundColumn], field: &'static str) -> Error {
        Error::invalid(
            field,
            format!(
                "{field} is missing, and no column of table {} has a usual name for it: name one of {}",
                self.table,
                listed(found)
            ),
        )
    }
}

fn recognized(found: &[FoundColumn], usual: &[&str]) -> Option<String> {
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    usual.iter().find_map(|usual| {
        let column = found.iter().find(|column| plain(&column.name) == *usual);
        column.map(|column| column.name.clone())
    })
}

fn listed(found: &[FoundColumn]) -> String {
    let names: Vec<&str> = found.iter().map(|column| column.name.as_str()).collect();
    names.join(", ")
}

/// The error for a table that is not adopted as an outbox.
pub(crate) fn not_outbox(table: &str) -> Error {
    Error::invalid(
        "table",
        format!("table {table} is not adopted as an outbox: run `turno adopt --as outbox {table}`"),
    )
}

/// The error for a table that does not exist.
pub(crate) fn no_table(table: &str) -> Error {
    Error::invalid(
        "table",
        format!(
            "table {table} does not exist: check the name and the schema, and that it is an ordinary table of your own"
        ),
    )
}

/// The error for a column of a type that does not fit.
pub(crate) fn wrong_type(field: &'static str, column: &str, kind: &str, needed: &str) -> Error {
    Error::invalid(
        field,
        format!(
            "{field} is column {column} of type {kind}, and must be {needed}: name another one"
        ),
    )
}

/// The error for an id that does not identify a row.
pub(crate) fn not_unique(table: &str, column: &str) -> Error {
    Error::invalid(
        "id",
        format!(
            "id is {column}, which may be null or occur twice in table {table}: name the primary key, or a column that is not null \
             and has a unique index of its own"
        ),
    )
}

/// A claimed row of an outbox table.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    /// Its id, as text.
    pub id: String,
    /// The event's type.
    pub kind: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// The payload.
    pub payload: String,
    /// The time of creation.
    pub emitted_at: Timestamp,
    /// Number of times that the sink refused it.
    pub refused: u32,
    /// Number of attempts whose outcome is unknown.
    pub doubtful: u32,
    /// Whether its key is parked.
    pub parked: bool,
}

impl OutboxRow {
    /// Returns the event of the row, which is the one at `place` of its claim.
    pub(crate) fn event(&self, table: &AdoptedOutboxTable, place: usize) -> ClaimedEvent {
        ClaimedEvent {
            seq: ItemId(i64::try_from(place).unwrap_or(i64::MAX)),
            id: table.event_id(&self.id),
            key: self.key.clone().filter(|key| !key.is_empty()),
            event: self.envelope(),
            emitted_at: self.emitted_at,
            refused: self.refused,
            doubtful: self.doubtful,
            parked: self.parked,
        }
    }

    /// Returns the event in the format of the outbox. A payload that is not JSON gives a text that is not JSON either, and the
    /// relay sets the row aside.
    fn envelope(&self) -> String {
        let Ok(payload) = RawValue::from_string(self.payload.clone()) else {
            return "the payload is not JSON".to_owned();
        };
        let envelope = Envelope {
            kind: self.kind.clone(),
            correlation_id: self.correlation_id.clone().filter(|id| !id.is_empty()),
            traceparent: None,
            tracestate: None,
            headers: Default::default(),
            payload,
        };
        serde_json::to_string(&envelope).unwrap_or_default()
    }
}

/// Parameters of `AdoptStore::outbox_table_settle`: [`OutboxSettle`] with the ids of rows.
#[derive(Debug, Clone)]
pub struct OutboxRowsSettle {
    /// The claim.
    pub token: Uuid,
    /// The rows that the sink confirmed.
    pub sent: Vec<String>,
    /// The rows that the sink refused, the error texts, and what follows.
    pub refused: Vec<(String, String, AfterRefusal)>,
    /// Of the other rows, those that may have arrived.
    pub doubtful: Vec<String>,
    /// Of the other rows, those that are not due again at once.
    pub deferred: Vec<(String, std::time::Duration)>,
}

impl OutboxRowsSettle {
    /// Replaces the places in a claim by the ids of its rows.
    pub(crate) fn new(ask: &OutboxSettle, rows: &[String]) -> Self {
        let row = |seq: ItemId| {
            usize::try_from(seq.0)
                .ok()
                .and_then(|place| rows.get(place))
        };
        let all = |seqs: &[ItemId]| seqs.iter().filter_map(|seq| row(*seq).cloned()).collect();
        OutboxRowsSettle {
            token: ask.token,
            sent: all(&ask.sent),
            refused: ask
                .refused
                .iter()
                .filter_map(|it| Some((row(it.seq)?.clone(), it.error.clone(), it.next)))
                .collect(),
            doubtful: all(&ask.doubtful),
            deferred: ask
                .deferred
                .iter()
                .filter_map(|it| Some((row(it.seq)?.clone(), it.delay)))
                .collect(),
        }
    }

    /// Number of rows with an outcome.
    pub(crate) fn settled(&self) -> u64 {
        (self.sent.len() + self.refused.len()) as u64
    }
}

/// Returns the error that a discarded row keeps, so that the application sees why the row was never published.
pub(crate) fn discard_error(ask: &OutboxDiscard) -> String {
    match &ask.reason {
        Some(reason) => format!("discarded by {}: {reason}", ask.user),
        None => format!("discarded by {}", ask.user),
    }
}

/// A row of a list, before it is shown.
#[derive(Debug)]
pub(crate) struct ListedRow {
    /// Its place in the order of rows, as a JSON array of the values of [`OutboxColumns::place`].
    pub(crate) place: String,
    pub(crate) row: OutboxRow,
    pub(crate) has_time: bool,
    pub(crate) by: Option<String>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) settled_at: Option<Timestamp>,
    pub(crate) error: Option<String>,
}

/// Returns a payload as JSON. One that is not JSON is a string: such a row is dead, and an operator must see why.
fn json_text(payload: String) -> String {
    match serde_json::from_str::<&RawValue>(&payload) {
        Ok(_) => payload,
        Err(_) => serde_json::Value::from(payload).to_string(),
    }
}

/// Returns the template of a list of rows in one state. Whether they are processed is said in a way that fits the indexes.
pub(crate) fn list_template(template: &str, state: EventState) -> String {
    let is_listed = match state {
        EventState::Dispatched | EventState::Discarded => "not ({open t})",
        _ => "{open t}",
    };
    template.replace("{listed t}", is_listed)
}

/// The error for a cursor that no page of this table has returned.
pub(crate) fn wrong_cursor() -> Error {
    Error::invalid(
        "after",
        "after is not a cursor of this table: use `next` of the previous page",
    )
}

impl ListedRow {
    /// Returns the rows as a page. It is the last one if it is not full.
    pub(crate) fn page(
        rows: Vec<ListedRow>,
        table: &AdoptedOutboxTable,
        state: EventState,
        limit: u32,
    ) -> OutboxTablePage {
        let next = turno_api::page::next(&rows, limit, |row| row.place.clone());
        OutboxTablePage {
            events: rows.into_iter().map(|row| row.view(table, state)).collect(),
            next,
        }
    }

    fn view(self, table: &AdoptedOutboxTable, state: EventState) -> EventView {
        let OutboxRow {
            id,
            kind,
            key,
            correlation_id,
            payload,
            emitted_at,
            refused,
            doubtful,
            ..
        } = self.row;
        let error = self.error.filter(|error| !error.is_empty());
        EventView {
            seq: ItemId(id.parse().unwrap_or(0)),
            id: table.event_id(&id),
            state,
            kind: Some(kind),
            payload: Some(json_text(payload).as_str().into()),
            key,
            correlation_id,
            traceparent: None,
            headers: Default::default(),
            refused,
            doubtful,
            by: self.by.clone(),
            emitted_at: self.has_time.then_some(emitted_at),
            at: self.at,
            errors: error
                .into_iter()
                .map(|error| AttemptError {
                    attempt: refused,
                    at: self.settled_at.unwrap_or(emitted_at),
                    kind: "failed".to_owned(),
                    error,
                    worker: self.by.clone(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> AdoptedOutboxTable {
        let found: Vec<FoundColumn> = [
            "Id",
            "Type",
            "PayloadJson",
            "CorrelationId",
            "OccurredAt",
            "DispatchedAt",
            "Attempts",
            "Error",
        ]
        .map(|name| FoundColumn {
            name: name.to_owned(),
        })
        .into();
        let ask = AdoptOutboxTable {
            table: name.to_owned(),
            ..AdoptOutboxTable::default()
        };
        AdoptedOutboxTable {
            table: name.to_owned(),
            columns: ask.columns(&found).unwrap(),
            max_attempts: 5,
            added: Vec::new(),
            indexes: Vec::new(),
            facts: TableFacts::default(),
        }
    }

    #[test]
    fn the_columns_of_entity_framework_are_recognized() {
        let OutboxColumns {
            id,
            kind,
            payload,
            created,
            processed,
            key,
            ..
        } = table("OutboxMessages").columns;
        assert_eq!(
            [id, kind, payload, created, processed],
            ["Id", "Type", "PayloadJson", "OccurredAt", "DispatchedAt"]
        );
        assert_eq!(key, None);
    }

    #[test]
    fn an_event_id_leads_back_to_its_row() {
        let (one, other) = (table("one"), table("other"));
        for row in [
            "7",
            "0",
            "4611686018427387903",
            "0190f1f4-2b3c-7d4e-8f50-112233445566",
        ] {
            assert_eq!(one.row_id(one.event_id(row)), row);
        }
        assert_ne!(one.event_id("7"), other.event_id("7"));
        assert_eq!(one.event_id("7").get_version_num(), 8);
        assert!(one.event_id("no id").is_nil() && one.event_id("-1").is_nil());
        let upper = "0190F1F4-2B3C-7D4E-8F50-112233445566";
        assert_eq!(one.row_id(one.event_id(upper)), upper.to_lowercase());
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = table("it's \"one\"").record();
        assert_eq!(Record::read(&record.text().unwrap()), Some(record));
        assert_eq!(Record::read("a comment of the user's"), None);
    }

    #[test]
    fn an_index_name_fits_into_postgresql() {
        let name = index_name(&"ñ".repeat(100), "pending");
        assert!(
            name.len() <= 63 && name.ends_with("_turno_pending"),
            "{name}"
        );
    }
}
