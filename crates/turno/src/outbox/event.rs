//! An event on its way into the outbox.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::check;
use crate::error::{Error, Kind, Result};
use crate::store::NewEvent;

/// A fact: what happened, and what there is to say about it.
///
/// ```
/// use turno::outbox::Event;
///
/// let event = Event::new("TicketCreatedEvent", &serde_json::json!({"ticket": 7}))
///     .key(7)
///     .correlation_id("a1b2c3")
///     .header("tenant", "north");
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is not emitted yet"]
pub struct Event {
    new: NewEvent,
    /// The payload, or why there is none.
    payload: Result<()>,
}

impl Event {
    /// An event of a type (`TicketCreatedEvent`, or `ticket.created`) with a payload, which is written as JSON.
    pub fn new(kind: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Self {
        let (text, payload) = match serde_json::to_string(payload) {
            Ok(text) => (text, Ok(())),
            Err(error) => (String::new(), Err(not_json(error))),
        };
        Event::with(kind.into(), text, payload)
    }

    /// An event whose payload is JSON text already; it is kept to the letter.
    pub fn from_json(kind: impl Into<String>, payload: impl Into<String>) -> Self {
        let text = payload.into();
        let payload = serde_json::from_str::<serde::de::IgnoredAny>(&text)
            .map(drop)
            .map_err(not_json);
        Event::with(kind.into(), text, payload)
    }

    fn with(kind: String, text: String, payload: Result<()>) -> Self {
        Event {
            new: NewEvent {
                id: None,
                kind,
                payload: text,
                key: None,
                correlation_id: None,
                traceparent: None,
                tracestate: None,
                headers: BTreeMap::new(),
                delay: None,
            },
            payload,
        }
    }

    /// The ordering key: events with one key are published in the order of their emission, by relays that keep it.
    pub fn key(mut self, key: impl Display) -> Self {
        self.new.key = Some(key.to_string());
        self
    }

    /// What it belongs to, across services.
    pub fn correlation_id(mut self, id: impl Display) -> Self {
        self.new.correlation_id = Some(id.to_string());
        self
    }

    /// The W3C trace context, as the `traceparent` header has it.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.new.traceparent = Some(traceparent.into());
        self
    }

    /// The W3C trace state, as the `tracestate` header has it.
    pub fn tracestate(mut self, tracestate: impl Into<String>) -> Self {
        self.new.tracestate = Some(tracestate.into());
        self
    }

    /// A header of the application's own.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.new.headers.insert(name.into(), value.into());
        self
    }

    /// Not before so long after the emission.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.new.delay = Some(delay);
        self
    }

    /// An id of your own: emitted twice, it is stored once, for as long as the outbox remembers it. A UUIDv7
    /// otherwise.
    pub fn id(mut self, id: Uuid) -> Self {
        self.new.id = Some(id);
        self
    }

    /// The event as stores know it, if it is within the rules.
    pub(super) fn checked(&self, max_payload: usize) -> Result<NewEvent> {
        self.payload.clone()?;
        check::event(&self.new, max_payload)?;
        Ok(self.new.clone())
    }
}

fn not_json(error: serde_json::Error) -> Error {
    Error::caused(
        Kind::invalid("payload"),
        format!("payload cannot be written as JSON ({error}): emit what can"),
        error,
    )
}
