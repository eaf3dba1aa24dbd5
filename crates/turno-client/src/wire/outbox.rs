//! Bodies of the outbox: events.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turno::inbox::{AttemptError, ItemId};
use turno::outbox::EventState;
use uuid::Uuid;

use super::Span;
#[cfg(feature = "schema")]
use super::rules::{Json, Name, Text};

/// Stores events: `POST /v1/outbox`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Emit {
    /// The events, in order; all or none are stored.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
    #[serde(deserialize_with = "super::object::objects")]
    pub events: Vec<EmitEvent>,
    /// The identity of this request: sent twice, it changes nothing more, and is answered the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Uuid>,
}

/// An event to be stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EmitEvent {
    /// What happened: `TicketCreatedEvent`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(value_type = Name))]
    pub kind: String,
    /// What there is to say of it: any JSON.
    #[cfg_attr(feature = "schema", schema(value_type = Json))]
    pub payload: Box<RawValue>,
    /// Events with one key are published in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub key: Option<String>,
    /// What it belongs to, across services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub correlation_id: Option<String>,
    /// The W3C trace context; that of the request, if not said.
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
    /// Headers of the application's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Not before this has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Its id: emitted again, it is stored once. A new one, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
}

/// The ids of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Emitted {
    /// One for each event, in their order.
    pub ids: Vec<Uuid>,
}

/// One page of events: `GET /v1/outbox/events`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Events {
    /// In the order of their emission; dispatched ones newest first.
    pub events: Vec<Event>,
    /// Where the next page begins (`after`); none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<i64>))]
    pub next: Option<ItemId>,
}

/// An event as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its place in the list, for the next page.
    #[cfg_attr(feature = "schema", schema(value_type = i64))]
    pub seq: ItemId,
    /// Its id, stable for ever.
    pub id: Uuid,
    /// Its state.
    pub state: EventState,
    /// What happened; with what it says, not kept of dispatched events unless they are archived.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it says.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::of::said"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Json, required = false))]
    pub payload: Option<Box<RawValue>>,
    /// Its ordering key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it belongs to, across services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The application's own headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How often it was refused.
    pub refused: u32,
    /// How often it may have arrived, without anybody knowing.
    pub doubtful: u32,
    /// Who publishes it, or did last; who discarded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was emitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emitted_at: Option<Timestamp>,
    /// When its state began or, for a scheduled one, ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Its last errors, oldest first.
    pub errors: Vec<AttemptError>,
}

/// Revives dead and blocked events: `POST /v1/outbox/requeue`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RequeueEvents {
    /// Which; all, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_items = 10_000))]
    pub ids: Option<Vec<Uuid>>,
    /// Who does it, for the history; the name of the access token, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// Why; it goes into the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// Gives dead and blocked events up for good: `POST /v1/outbox/discard`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Discard {
    /// Which.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 10_000))]
    pub ids: Vec<Uuid>,
    /// Who does it, kept with the events and in the history; the name of the access token, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Name>))]
    pub user: Option<String>,
    /// Why; it goes into the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Text>))]
    pub reason: Option<String>,
}

/// How many were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Discarded {
    /// So many.
    pub discarded: u64,
}
