//! An event as it is printed.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use turno::inbox::{AttemptError, ItemId};
use turno::outbox::{EventState, EventView};
use uuid::Uuid;

use crate::payload;

/// An event for programs; what is absent is left out.
#[derive(Debug, Serialize)]
pub(super) struct Listed<'a> {
    seq: ItemId,
    id: Uuid,
    state: EventState,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    refused: u32,
    doubtful: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emitted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    errors: &'a [AttemptError],
}

impl<'a> Listed<'a> {
    pub(super) fn of(event: &'a EventView) -> Result<Self> {
        Ok(Listed {
            seq: event.seq,
            id: event.id,
            state: event.state,
            r#type: event.kind.as_deref(),
            payload: event.payload.as_deref().map(payload::value).transpose()?,
            key: event.key.as_deref(),
            correlation_id: event.correlation_id.as_deref(),
            traceparent: event.traceparent.as_deref(),
            headers: &event.headers,
            refused: event.refused,
            doubtful: event.doubtful,
            by: event.by.as_deref(),
            emitted_at: event.emitted_at,
            at: event.at,
            errors: &event.errors,
        })
    }
}

/// What the time of an event's state is called.
pub(super) fn since(state: EventState) -> &'static str {
    match state {
        EventState::Pending | EventState::Scheduled => "due",
        EventState::Processing => "claimed",
        EventState::Dispatched => "dispatched",
        EventState::Dead => "dead",
        EventState::Blocked => "blocked",
        EventState::Discarded => "discarded",
    }
}
