//! Outbox tables: a table of the application's own, from which a relay publishes as it is.
//!
//! The application's columns stay the truth: a row is published if its column *processed* is empty and it has attempts left. Adopt
//! adds columns that begin with `relay_`, for claims. The record of an adoption is in the table itself, at the column
//! [`RECORD_COLUMN`], so it survives a dump and a restore of the table alone.

mod columns;
mod rows;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(crate) use self::columns::FoundColumn;
pub(crate) use self::rows::{ListedRow, discard_error, list_template, wrong_cursor};
pub use self::rows::{OutboxRow, OutboxRowsSettle};
use super::sql_text::quote;
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

#[cfg(test)]
mod tests;
