//! The outbox's part of the seam: what a store must be able to do with events.
//!
//! An event is an item of a queue of its own, [`OUTBOX_QUEUE`]; its ordering key is the item's group, and a relay is
//! the worker. It is *pending*, *scheduled* or *processing* as an item is, then *dispatched*; or *dead*, when the other
//! side would not have it; or *blocked*, when it is dead and keeps its key waiting.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{AttemptError, Due, ItemId, NewItem};
use crate::error::{Error, Kind, Result};

/// The queue that events wait in. Names that begin with `$` are Turno's own.
pub const OUTBOX_QUEUE: &str = "$outbox";

/// The most events of one claim.
pub const MAX_BATCH: u32 = 1000;

/// The verbs of the outbox.
#[async_trait]
pub trait OutboxStore {
    /// Stores events, all or none, and answers their ids. One whose id is given and known is not stored again.
    async fn outbox_emit(&self, ask: &OutboxEmit) -> Result<Vec<Uuid>>;

    /// Takes events that are due, for a relay. They are settled together.
    async fn outbox_claim(&self, ask: &OutboxClaim) -> Result<Vec<ClaimedEvent>>;

    /// Ends a claim: says what became of each of its events. Those that it does not name go back, no attempt spent.
    async fn outbox_settle(&self, ask: &OutboxSettle) -> Result<OutboxSettled>;

    /// Ends all claims on events at once: for a relay that has just become the only one. Answers how many events were
    /// in flight.
    async fn outbox_recover(&self) -> Result<u64>;

    /// Tries to become the only relay for as long as the answer is held, by a lock that dies with its holder's session.
    async fn outbox_lead(&self, ask: &OutboxLead) -> Result<Lead>;

    /// How many events are in which state.
    async fn outbox_stats(&self) -> Result<OutboxStats>;

    /// One page of the events in one state.
    async fn outbox_list(&self, ask: &OutboxList) -> Result<Vec<EventView>>;

    /// One event, wherever it is.
    async fn outbox_find(&self, id: Uuid) -> Result<Option<EventView>>;

    /// Revives dead and blocked events, and records it. Answers how many.
    async fn outbox_requeue(&self, ask: &OutboxRequeue) -> Result<u64>;

    /// Gives dead and blocked events up for good, and records it. Answers how many.
    async fn outbox_discard(&self, ask: &OutboxDiscard) -> Result<u64>;
}

/// An event to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Given by the caller: then it is stored once, however often it is emitted. The store makes one otherwise.
    pub id: Option<Uuid>,
    /// What happened: `TicketCreatedEvent`.
    pub kind: String,
    /// What it says, as JSON text.
    pub payload: String,
    /// Events with one key are in order.
    pub key: Option<String>,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// The W3C trace context.
    pub traceparent: Option<String>,
    /// The W3C trace state.
    pub tracestate: Option<String>,
    /// The application's own headers.
    pub headers: BTreeMap<String, String>,
    /// Not before so long after the emission.
    pub delay: Option<Duration>,
}

impl NewEvent {
    /// The item that stands for the event, in stores that keep one. The relay decides how often it may be refused.
    pub(crate) fn to_item(&self, id: Uuid) -> Result<NewItem> {
        Ok(NewItem {
            payload: Envelope::of(self)?,
            key: self.id.map(|id| id.to_string()),
            label: Some(id.to_string()),
            priority: super::DEFAULT_PRIORITY,
            due: self.delay.map(Due::After),
            group: self.key.clone(),
            max_attempts: super::UNLIMITED_ATTEMPTS,
        })
    }
}

/// An event as it is stored: what an item's columns have no place for. Put together in SQL, too: `outbox_emit.sql`.
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
            payload: RawValue::from_string(event.payload.clone()).map_err(not_json)?,
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

/// Parameters of [`OutboxStore::outbox_emit`].
#[derive(Debug, Clone)]
pub struct OutboxEmit {
    /// The events, in order.
    pub events: Vec<NewEvent>,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// Whether the events of one key are kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Of each key one at a time, the first one first.
    ByKey,
    /// All in the order of their emission, as far as they are due; many of one key at once.
    AsEmitted,
}

/// Parameters of [`OutboxStore::outbox_claim`].
#[derive(Debug, Clone)]
pub struct OutboxClaim {
    /// Who claims, as people see it.
    pub relay: String,
    /// At the most this many, and at the most [`MAX_BATCH`].
    pub limit: u32,
    /// For how long, unless extended.
    pub lease: Duration,
    /// Whether keys are kept in order.
    pub order: Order,
    /// The identity of this request, and the token of the claim: asked twice, it answers what it claimed the first time.
    pub token: Uuid,
}

/// An event in a relay's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// Its number in the outbox.
    pub seq: ItemId,
    /// Its id, stable for ever. Nil if the stored item has none: then it cannot be published.
    pub id: Uuid,
    /// Its ordering key.
    pub key: Option<String>,
    /// The event as it is stored: JSON text.
    pub event: String,
    /// When it was emitted, on the store's clock.
    pub emitted_at: Timestamp,
    /// How often it was refused.
    pub refused: u32,
    /// In how many attempts it may have arrived, at most [`MAX_DOUBTS`](super::MAX_DOUBTS).
    pub doubtful: u32,
    /// Its key is parked: it is to be set aside, and not to be published.
    pub parked: bool,
}

/// Parameters of [`OutboxStore::outbox_settle`].
#[derive(Debug, Clone)]
pub struct OutboxSettle {
    /// The claim.
    pub token: Uuid,
    /// What the other side has.
    pub sent: Vec<ItemId>,
    /// What it would not have.
    pub refused: Vec<Refusal>,
    /// Of the others, those that may have arrived.
    pub doubtful: Vec<ItemId>,
    /// Of the others, those that are not due again at once.
    pub deferred: Vec<Deferral>,
    /// Whether whole events are kept.
    pub archive: Archive,
    /// The identity of this request: applying it twice changes nothing.
    pub request: Uuid,
}

/// An event that goes back, and is not due at once. No attempt is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Which.
    pub seq: ItemId,
    /// It is due again after so long.
    pub delay: Duration,
}

/// Whether dispatched events are kept whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Archive {
    /// Only their ids are.
    #[default]
    Ids,
    /// All of them.
    Events,
}

/// An event that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub seq: ItemId,
    /// What the other side says.
    pub error: String,
    /// When it is tried again; or that it is dead, and what becomes of its key.
    pub next: AfterRefusal,
}

/// What follows a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Another attempt, after so long.
    Retry(Duration),
    /// None: it is dead.
    Dead(OnDead),
}

/// What a dead event does to the others of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// Nothing: they are published.
    #[default]
    Skip,
    /// They wait, until a person requeues or discards it.
    Block,
    /// They are set aside with it, until a person requeues them.
    Park,
}

impl OnDead {
    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            OnDead::Skip => "skip",
            OnDead::Block => "block",
            OnDead::Park => "park",
        }
    }
}

impl FromStr for OnDead {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [OnDead::Skip, OnDead::Block, OnDead::Park]
            .into_iter()
            .find(|choice| choice.as_str() == word)
            .ok_or_else(|| Error::invalid("on_dead", "on_dead must be skip, block or park"))
    }
}

impl fmt::Display for OnDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How many events were settled, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxSettled {
    /// Gone from the outbox.
    pub sent: u64,
    /// To be tried again, or dead.
    pub refused: u64,
    /// Given back.
    pub returned: u64,
    /// Of the sent and refused ones, those that were not held any more: nothing was applied to these.
    pub stale: u64,
}

/// Parameters of [`OutboxStore::outbox_lead`].
#[derive(Debug, Clone)]
pub struct OutboxLead {
    /// The number of the advisory lock.
    pub lock_id: i64,
    /// Who asks, as people see it.
    pub relay: String,
}

/// Answer of [`OutboxStore::outbox_lead`].
#[derive(Debug)]
pub enum Lead {
    /// The caller is the only one, until it drops this or the session ends.
    Alone(Box<dyn Leading>),
    /// Somebody else is: who.
    Busy(String),
    /// The store has no such lock, or not over this connection: take a lease.
    NotHere,
}

/// Being the only relay. Dropped, it ends.
#[async_trait]
pub trait Leading: fmt::Debug + Send + Sync {
    /// Ends when the session has ended, and another may be leading.
    async fn ended(&self);
}

/// How many events are in which state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutboxStats {
    /// All that were ever emitted, and not discarded.
    pub total: u64,
    /// Waiting for a relay.
    pub pending: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// In relays' hands.
    pub processing: u64,
    /// Published, since the outbox began.
    pub dispatched: u64,
    /// Set aside, to be looked at.
    pub dead: u64,
    /// Dead, and keeping their keys waiting.
    pub blocked: u64,
    /// Keys whose events are set aside as they come.
    pub parked_keys: u64,
    /// How long the oldest pending event has been due, in milliseconds; `None` if none is pending.
    #[serde(rename = "oldest_pending_ms", with = "super::as_optional_ms", default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub oldest_pending: Option<Duration>,
}

/// The state of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// Waiting for a relay.
    Pending,
    /// Waiting for its time.
    Scheduled,
    /// In a relay's hands.
    Processing,
    /// Published.
    Dispatched,
    /// Set aside.
    Dead,
    /// Dead, and keeping its key waiting.
    Blocked,
    /// Given up by a person.
    Discarded,
}

impl EventState {
    /// Those that can be listed.
    pub const LISTED: [EventState; 6] = [
        EventState::Pending,
        EventState::Scheduled,
        EventState::Processing,
        EventState::Dispatched,
        EventState::Dead,
        EventState::Blocked,
    ];

    /// The word that stores and faces use.
    pub fn as_str(self) -> &'static str {
        match self {
            EventState::Pending => "pending",
            EventState::Scheduled => "scheduled",
            EventState::Processing => "processing",
            EventState::Dispatched => "dispatched",
            EventState::Dead => "dead",
            EventState::Blocked => "blocked",
            EventState::Discarded => "discarded",
        }
    }
}

impl fmt::Display for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventState {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        EventState::LISTED
            .into_iter()
            .chain([EventState::Discarded])
            .find(|state| state.as_str() == word)
            .ok_or_else(|| {
                Error::invalid(
                    "state",
                    "state must be pending, scheduled, processing, dispatched, dead or blocked",
                )
            })
    }
}

/// Parameters of [`OutboxStore::outbox_list`].
#[derive(Debug, Clone)]
pub struct OutboxList {
    /// Only events in this state.
    pub state: EventState,
    /// The last `seq` of the page before.
    pub after: Option<ItemId>,
    /// The size of the page; dispatched events come in whole batches.
    pub limit: u32,
}

/// An event as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// Its place in the list, for the next page.
    pub seq: ItemId,
    /// Its id.
    pub id: Uuid,
    /// Its state.
    pub state: EventState,
    /// What happened; with what it says, not kept of dispatched events unless they are archived.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its ordering key.
    pub key: Option<String>,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// The W3C trace context.
    pub traceparent: Option<String>,
    /// The application's own headers.
    pub headers: BTreeMap<String, String>,
    /// What it says, as JSON text.
    pub payload: Option<String>,
    /// How often it was refused.
    pub refused: u32,
    /// How often it may have arrived, without anybody knowing.
    pub doubtful: u32,
    /// Who publishes it, or did last; who discarded it.
    pub by: Option<String>,
    /// When it was emitted.
    pub emitted_at: Option<Timestamp>,
    /// When its state began or, for a scheduled one, ends.
    pub at: Option<Timestamp>,
    /// Its last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

impl EventView {
    /// Fills in what the stored event says. One that cannot be read is shown as it is stored, so that it can be found and
    /// discarded.
    pub(crate) fn with_event(mut self, event: Option<&str>) -> Self {
        let Some(text) = event else {
            return self;
        };
        match Envelope::read(text) {
            Ok(event) => {
                self.kind = Some(event.kind);
                self.correlation_id = event.correlation_id;
                self.traceparent = event.traceparent;
                self.headers = event.headers;
                self.payload = Some(event.payload.get().to_owned());
            }
            Err(_) => self.payload = Some(text.to_owned()),
        }
        self
    }
}

/// Parameters of [`OutboxStore::outbox_requeue`].
#[derive(Debug, Clone)]
pub struct OutboxRequeue {
    /// Which; all, if not said.
    pub ids: Option<Vec<Uuid>>,
    /// At the most about this many; those of one parked key are requeued together.
    pub limit: u32,
    /// Who does it, for the history.
    pub user: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Parameters of [`OutboxStore::outbox_discard`].
#[derive(Debug, Clone)]
pub struct OutboxDiscard {
    /// Which.
    pub ids: Vec<Uuid>,
    /// Who does it: kept with the events, and for the history.
    pub user: String,
    /// Why.
    pub reason: Option<String>,
}
