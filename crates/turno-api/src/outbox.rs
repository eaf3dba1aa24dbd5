//! The outbox: events.
//!
//! An event is an item of the queue [`OUTBOX_QUEUE`]: its ordering key is the item's group, and a relay is the worker. It is
//! *pending*, *scheduled* or *processing* as an item is, then *dispatched*. It is *dead* when the sink refused it too often, or
//! *blocked* when it is dead and the later events of its key wait.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[cfg(feature = "schema")]
use crate::duration::WireDuration;
use crate::ids::ItemId;
use crate::inbox::AttemptError;
use crate::json::JsonText;
use crate::names::named;
#[cfg(feature = "schema")]
use crate::openapi_types::{Json, Name, Text};
use crate::request::request;
pub use crate::routing::routing_key;

/// The queue of the outbox's events. Names that begin with `$` are reserved.
pub const OUTBOX_QUEUE: &str = "$outbox";

/// Maximum number of events of one claim.
pub const MAX_BATCH: u32 = 1000;

/// The header of an event that may have been published before.
pub const POSSIBLE_DUPLICATE: &str = "x-possible-duplicate";

/// An event to emit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// The type: `TicketCreatedEvent`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub kind: String,
    /// The payload: any JSON.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: JsonText,
    /// The ordering key: events of one key are published in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub key: Option<String>,
    /// The correlation id, across services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub correlation_id: Option<String>,
    /// The W3C trace context. Default over HTTP: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(pattern = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")
    )]
    pub traceparent: Option<String>,
    /// The W3C trace state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            min_length = 1,
            max_length = 512,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
        )
    )]
    pub tracestate: Option<String>,
    /// The application's own headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The time until the event is due.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::duration::as_optional_text"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<WireDuration>))]
    pub delay: Option<Duration>,
    /// The id. With an id of the caller's, the event is stored once, however often it is emitted. Default: a new id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
}

/// Parameters of `OutboxStore::outbox_emit`.
#[derive(Debug, Clone)]
pub struct OutboxEmit {
    /// The events, in order.
    pub events: Vec<NewEvent>,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// Whether the events of one key are kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One event per key at a time, the oldest first.
    ByKey,
    /// All due events in the order of their emission, also several of one key.
    AsEmitted,
}

/// Parameters of `OutboxStore::outbox_claim`.
#[derive(Debug, Clone)]
pub struct OutboxClaim {
    /// The name of the relay, for people.
    pub relay: String,
    /// Maximum number of events, at most [`MAX_BATCH`].
    pub limit: u32,
    /// How long the claim is valid unless it is extended.
    pub lease: Duration,
    /// Whether the events of one key are kept in order.
    pub order: Order,
    /// The request id, and the token of the claim. A repeated call returns the events of the first one.
    pub token: Uuid,
}

/// An event that a relay has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// The number in the outbox.
    pub seq: ItemId,
    /// The id, which never changes. Nil if the stored item has none: then it cannot be published.
    pub id: Uuid,
    /// The ordering key.
    pub key: Option<String>,
    /// The event as it is stored: JSON text.
    pub event: String,
    /// When it was emitted, on the store's clock.
    pub emitted_at: Timestamp,
    /// Number of times that the sink refused it.
    pub refused: u32,
    /// Number of attempts whose outcome is unknown, at most [`MAX_DOUBTS`](crate::inbox::MAX_DOUBTS).
    pub doubtful: u32,
    /// Whether its key is parked: then the relay sets the event aside and does not publish it.
    pub parked: bool,
}

/// Parameters of `OutboxStore::outbox_settle`.
#[derive(Debug, Clone)]
pub struct OutboxSettle {
    /// The claim.
    pub token: Uuid,
    /// The events that the sink confirmed.
    pub sent: Vec<ItemId>,
    /// The events that the sink refused.
    pub refused: Vec<Refusal>,
    /// Of the other events, those that may have arrived.
    pub doubtful: Vec<ItemId>,
    /// Of the other events, those that are not due again at once.
    pub deferred: Vec<Deferral>,
    /// Whether whole events are kept.
    pub archive: Archive,
    /// The request id: a repeated call changes nothing.
    pub request: Uuid,
}

/// An event that is given back and is due again later. The attempt does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// The event.
    pub seq: ItemId,
    /// The time until it is due again.
    pub delay: Duration,
}

/// Whether dispatched events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Archive {
    /// Only their ids.
    #[default]
    Ids,
    /// Whole events.
    Events,
}

/// An event that the sink refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The event.
    pub seq: ItemId,
    /// The error text of the sink.
    pub error: String,
    /// Whether it is attempted again.
    pub next: AfterRefusal,
}

/// What follows a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Another attempt, after this pause.
    Retry(Duration),
    /// None: the event is dead.
    Dead(OnDead),
}

named! {
    /// What happens to the later events of a dead event's key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum OnDead as "on_dead" {
        /// They are published.
        #[default]
        Skip = "skip",
        /// They wait until an operator requeues or discards the dead event.
        Block = "block",
        /// They are set aside with it, until an operator requeues them.
        Park = "park",
    }
}

/// Number of settled events, per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxSettled {
    /// Dispatched.
    pub sent: u64,
    /// Refused: to be attempted again, or dead.
    pub refused: u64,
    /// Given back.
    pub returned: u64,
    /// Of the sent and refused ones, those that the claim did not hold any more. Nothing was changed for them.
    pub stale: u64,
}

/// Parameters of `OutboxStore::outbox_lead`.
#[derive(Debug, Clone)]
pub struct OutboxLead {
    /// The number of the advisory lock.
    pub lock_id: i64,
    /// The name of the relay, for people.
    pub relay: String,
}

/// Number of events, per state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutboxStats {
    /// All events that were ever emitted and not discarded.
    pub total: u64,
    /// Waiting for a relay.
    pub pending: u64,
    /// Waiting for their due time.
    pub scheduled: u64,
    /// Claimed by relays.
    pub processing: u64,
    /// Published since the outbox began.
    pub dispatched: u64,
    /// Dead, until an operator requeues or discards them.
    pub dead: u64,
    /// Dead, and the later events of their keys wait.
    pub blocked: u64,
    /// Number of keys whose events are set aside when they are due.
    pub parked_keys: u64,
    /// How long the oldest pending event has been due, in milliseconds; `None` if none is pending.
    #[serde(
        rename = "oldest_pending_ms",
        with = "crate::duration::as_optional_ms",
        default
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub oldest_pending: Option<Duration>,
}

/// Number of rows of an outbox table that are not processed, per state. At most 100,000 rows are counted, the oldest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxTableStats {
    /// All rows that were counted.
    pub unprocessed: u64,
    /// Whether there may be more rows than were counted.
    pub more: bool,
    /// Waiting for a relay.
    pub pending: u64,
    /// Waiting for their due time.
    pub scheduled: u64,
    /// Claimed by relays.
    pub processing: u64,
    /// Dead, until an operator requeues or discards them.
    pub dead: u64,
    /// Dead, and the later rows of their keys wait.
    pub blocked: u64,
    /// Number of keys whose rows are set aside when they are due.
    pub parked_keys: u64,
    /// Number of attempts that the rows have had, together.
    pub attempts: u64,
    /// Age of the oldest pending row, in milliseconds; `None` if none is pending.
    #[serde(
        rename = "oldest_pending_ms",
        with = "crate::duration::as_optional_ms",
        default
    )]
    pub oldest_pending: Option<Duration>,
}

/// One page of the rows of an outbox table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutboxTablePage {
    /// In the order of their creation. The `seq` of a row is its id if that is a number, and 0 if not.
    pub events: Vec<EventView>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

named! {
    /// The state of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum EventState as "state" {
        /// Waiting for a relay.
        Pending = "pending",
        /// Waiting for its due time.
        Scheduled = "scheduled",
        /// Claimed by a relay.
        Processing = "processing",
        /// Published.
        Dispatched = "dispatched",
        /// Dead: the sink refused it too often.
        Dead = "dead",
        /// Dead, and the later events of its key wait.
        Blocked = "blocked",
        /// Discarded by an operator.
        Discarded = "discarded",
    }
}

impl EventState {
    /// The states that can be listed.
    pub const LISTED: [EventState; 6] = [
        EventState::Pending,
        EventState::Scheduled,
        EventState::Processing,
        EventState::Dispatched,
        EventState::Dead,
        EventState::Blocked,
    ];
}

/// Parameters of `OutboxStore::outbox_list`.
#[derive(Debug, Clone)]
pub struct OutboxList {
    /// Only events in this state.
    pub state: EventState,
    /// The last `seq` of the previous page.
    pub after: Option<ItemId>,
    /// The size of the page. Dispatched events are listed in whole batches.
    pub limit: u32,
}

/// An event of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventView {
    /// Its number, the cursor of the next page.
    pub seq: ItemId,
    /// The id, which never changes.
    pub id: Uuid,
    /// The state.
    pub state: EventState,
    /// The type. Type and payload of dispatched events are kept only if they are archived.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The payload.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub payload: Option<JsonText>,
    /// The ordering key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The correlation id, across services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The application's own headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Number of times that the sink refused it.
    pub refused: u32,
    /// Number of attempts whose outcome is unknown.
    pub doubtful: u32,
    /// The relay that publishes it or did last; the operator who discarded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was emitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emitted_at: Option<Timestamp>,
    /// When the state began; for a scheduled event, its due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// Parameters of `OutboxStore::outbox_requeue`.
#[derive(Debug, Clone)]
pub struct OutboxRequeue {
    /// The events. Default: all that are dead or blocked.
    pub ids: Option<Vec<Uuid>>,
    /// Approximate maximum number of events; those of one parked key are requeued together.
    pub limit: u32,
    /// The operator, for the history.
    pub user: Option<String>,
    /// The reason, for the history.
    pub reason: Option<String>,
}

/// Parameters of `OutboxStore::outbox_discard`.
#[derive(Debug, Clone)]
pub struct OutboxDiscard {
    /// The events.
    pub ids: Vec<Uuid>,
    /// The operator, kept with the events and for the history.
    pub user: String,
    /// The reason, for the history.
    pub reason: Option<String>,
}

request! {
    /// Emits events: `POST /v1/outbox`
    pub struct Emit {
        /// The events, in order; all or none are stored.
        #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
        #[serde(deserialize_with = "crate::object::objects")]
        events: Vec<NewEvent>,
    } optional {
        /// The request id: a repeated request changes nothing and has the same response.
        request: Uuid,
    }
}

/// The ids of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Emitted {
    /// One id per event, in their order.
    pub ids: Vec<Uuid>,
}

/// One page of events: `GET /v1/outbox/events`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Events {
    /// In the order of their emission; dispatched ones newest first.
    pub events: Vec<EventView>,
    /// Cursor of the next page (`after`); absent if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ItemId>,
}

request! {
    /// Requeues dead and blocked events: `POST /v1/outbox/requeue`
    #[derive(Default)]
    pub struct RequeueEvents {} optional {
        /// The events. Default: all that are dead or blocked.
        #[cfg_attr(feature = "schema", schema(max_items = 10_000))]
        ids: Vec<Uuid>,
        /// The operator, for the history. Default: the name of the access token.
        user: String as Name,
        /// The reason, for the history.
        reason: String as Text,
    }
}

request! {
    /// Discards dead and blocked events: `POST /v1/outbox/discard`
    #[derive(Default)]
    pub struct Discard {
        /// The events.
        #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
        ids: Vec<Uuid>,
    } optional {
        /// The operator, kept with the events and in the history. Default: the name of the access token.
        user: String as Name,
        /// The reason, for the history.
        reason: String as Text,
    }
}

/// Number of discarded events or items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Discarded {
    /// The number.
    pub discarded: u64,
}
