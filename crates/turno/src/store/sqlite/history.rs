//! The history: of locks, which write their own entries, and of operator actions.

use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::classify;
use super::rows::{attribution, exec, many};
use crate::clock::from_us;
use crate::error::Result;
use crate::store::*;

/// An intervention of an operator.
pub(super) struct OperatorAction<'a> {
    pub(super) part: Part,
    pub(super) event: HistoryEvent,
    /// The resource, queue or key; empty for the outbox.
    pub(super) resource: &'a str,
    /// Number of items, events or keys that were changed.
    pub(super) count: u64,
    pub(super) user: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

impl OperatorAction<'_> {
    /// Writes the entry in the transaction of the action, if the action changed anything. Returns the count.
    pub(super) fn record(&self, db: &Connection, now: i64) -> Result<u64> {
        if self.count > 0 {
            let count = i64::try_from(self.count).unwrap_or(i64::MAX);
            let params = named_params! {
                ":id": next_id(db)?, ":now": now, ":part": self.part.as_str(), ":event": self.event.as_str(),
                ":resource": self.resource, ":count": count, ":actor": self.user, ":reason": self.reason,
            };
            exec(db, query!(operator_action_insert), params)?;
        }
        Ok(self.count)
    }
}

/// Returns the next id of the history, which locks and operator actions share.
fn next_id(db: &Connection) -> Result<i64> {
    let next = db
        .prepare_cached(query!(history_next_id))
        .and_then(|mut next| next.query_row([], |row| row.get(0)).optional())
        .map_err(classify)?;
    match next {
        Some(id) => Ok(id),
        None => {
            exec(db, query!(history_first_id), [])?;
            Ok(1)
        }
    }
}

pub(super) fn history(db: &Connection, ask: &History) -> Result<Vec<HistoryEntry>> {
    let before = ask.before.unwrap_or(i64::MAX);
    let part = ask.part.map(Part::as_str);
    let rows = match &ask.resource {
        Some(resource) => many(
            db,
            query!(history_list_resource),
            named_params! {":part": part, ":resource": resource, ":before": before, ":limit": ask.limit},
            entry,
        )?,
        None => many(
            db,
            query!(history_list),
            named_params! {":part": part, ":prefix": ask.prefix, ":before": before, ":limit": ask.limit},
            entry,
        )?,
    };
    rows.into_iter()
        .map(|(part, event, entry)| {
            Ok(HistoryEntry {
                part: Part::parse(&part)?,
                event: HistoryEvent::parse(&event)?,
                ..entry
            })
        })
        .collect()
}

/// An entry; its part and its event still have to be understood.
fn entry(row: &Row<'_>) -> rusqlite::Result<(String, String, HistoryEntry)> {
    Ok((
        row.get("part")?,
        row.get("event")?,
        HistoryEntry {
            id: Some(row.get("id")?),
            at: from_us(row.get("at")?),
            part: Part::Lock,
            event: HistoryEvent::Acquired,
            resource: row.get("resource")?,
            count: row
                .get::<_, Option<i64>>("count")?
                .and_then(|count| u64::try_from(count).ok()),
            token: row.get::<_, Option<i64>>("token")?.map(Token),
            mode: row.get("mode")?,
            owner: row.get("owner")?,
            attribution: attribution(row)?,
            acquired_at: row.get::<_, Option<i64>>("acquired_at")?.map(from_us),
            expires_at: row.get::<_, Option<i64>>("expires_at")?.map(from_us),
            actor: row.get("actor")?,
            reason: row.get("reason")?,
        },
    ))
}
