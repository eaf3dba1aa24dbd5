//! Which columns of a table are those of an outbox: the ones that were named, or the ones with the usual names.

use super::{AdoptOutboxTable, OutboxColumns};
use crate::error::{Error, Result};

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
