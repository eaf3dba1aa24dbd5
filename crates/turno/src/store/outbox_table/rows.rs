//! Rows of an outbox table: claimed, settled, and listed.

use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::AdoptedOutboxTable;
use crate::error::Error;
use crate::store::outbox::Envelope;
use crate::store::{
    AfterRefusal, AttemptError, ClaimedEvent, EventState, EventView, ItemId, OutboxDiscard,
    OutboxSettle, OutboxTablePage,
};

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
