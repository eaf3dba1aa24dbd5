//! Store methods of the outbox.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
pub use turno_api::outbox::{
    AfterRefusal, Archive, ClaimedEvent, Deferral, EventState, EventView, MAX_BATCH, NewEvent,
    OUTBOX_QUEUE, OnDead, Order, OutboxClaim, OutboxDiscard, OutboxEmit, OutboxLead, OutboxList,
    OutboxRequeue, OutboxSettle, OutboxSettled, OutboxStats, OutboxTablePage, OutboxTableStats,
    Refusal,
};
use uuid::Uuid;

use super::{Due, NewItem};
use crate::error::{Error, Kind, Result};

/// Store methods of the outbox.
#[async_trait]
pub trait OutboxStore {
    /// Emits events, all or none, and returns their ids. An event with an id of the caller's is not stored again.
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>>;

    /// Claims due events, for a relay. They are settled together.
    async fn outbox_claim(&self, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>>;

    /// Ends a claim with the outcome of each of its events. Events without an outcome are given back; the attempt does not count.
    async fn outbox_settle(&self, ask: &OutboxSettle) -> Result<OutboxSettled>;

    /// Ends all claims on events, for a relay that has just become the leader. Returns how many events were in flight.
    async fn outbox_recover(&self) -> Result<u64>;

    /// Tries to become the leader, by a lock that ends with the session. The caller leads until it drops the result.
    async fn outbox_lead(&self, ask: &OutboxLead) -> Result<Leadership>;

    /// Returns the number of events per state.
    async fn outbox_stats(&self) -> Result<OutboxStats>;

    /// Returns one page of the events in one state.
    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>>;

    /// Returns one event, in any state.
    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>>;

    /// Requeues dead and blocked events, and records it. Returns how many.
    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64>;

    /// Discards dead and blocked events, and records it. Returns how many.
    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64>;
}

/// Outcome of [`OutboxStore::outbox_lead`].
#[derive(Debug)]
pub enum Leadership {
    /// The caller leads until it drops this or the session ends.
    Alone(Box<dyn Leading>),
    /// Another relay leads; its name.
    Busy(String),
    /// The store has no such lock, or not over this connection: the caller uses a lease.
    NotHere,
}

/// The leadership of a relay. It ends when it is dropped.
#[async_trait]
pub trait Leading: fmt::Debug + Send + Sync {
    /// Returns when the session has ended and another relay may lead.
    async fn ended(&self);
}

/// The fields of an event that have no column of their own. `outbox_emit.sql` writes the same format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tracestate: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) payload: Box<RawValue>,
}

impl Envelope {
    fn of(event: &NewEvent) -> Result<String> {
        let not_json = |error| {
            Error::caused(
                Kind::invalid("payload"),
                "payload is not JSON: emit what can be written as JSON",
                error,
            )
        };
        let envelope = Envelope {
            kind: event.kind.clone(),
            correlation_id: event.correlation_id.clone(),
            traceparent: event.traceparent.clone(),
            tracestate: event.tracestate.clone(),
            headers: event.headers.clone(),
            payload: RawValue::from_string(event.payload.to_string()).map_err(not_json)?,
        };
        serde_json::to_string(&envelope).map_err(not_json)
    }

    pub(crate) fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::caused(
                Kind::Broken,
                "an event is not stored as it was written",
                error,
            )
        })
    }
}

/// Returns the item that represents an event, in stores that keep one. The relay decides how many attempts it has.
pub(crate) fn event_item(event: &NewEvent, id: Uuid) -> Result<NewItem> {
    Ok(NewItem {
        payload: Envelope::of(event)?,
        key: event.id.map(|id| id.to_string()),
        label: Some(id.to_string()),
        priority: super::DEFAULT_PRIORITY,
        due: event.delay.map(Due::After),
        group: event.key.clone(),
        max_attempts: super::UNLIMITED_ATTEMPTS,
    })
}

/// Fills in the fields of the stored event. An event that cannot be parsed is shown as it is stored, so that an operator can
/// find and discard it.
pub(crate) fn with_event(mut view: EventView, event: Option<&str>) -> EventView {
    let Some(text) = event else {
        return view;
    };
    match Envelope::read(text) {
        Ok(event) => {
            view.kind = Some(event.kind);
            view.correlation_id = event.correlation_id;
            view.traceparent = event.traceparent;
            view.headers = event.headers;
            view.payload = Some(event.payload.into());
        }
        Err(_) => view.payload = Some(text.into()),
    }
    view
}
