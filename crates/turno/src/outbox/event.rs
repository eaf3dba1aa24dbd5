//! An event before it is emitted.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::check;
use crate::error::{Error, Kind, Result};
use crate::store::NewEvent;

/// An event to be emitted: a type, a payload and its options.
///
/// ```
/// use turno::outbox::Event;
///
/// let event = Event::new("TicketCreatedEvent", &serde_json::json!({"ticket": 7}))
///     .ordering_key(7)
///     .correlation_id("a1b2c3")
///     .header("tenant", "north");
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is not emitted yet"]
pub struct Event {
    new: NewEvent,
    /// Whether the payload could be written as JSON.
    payload: Result<()>,
}

impl From<&Event> for Event {
    fn from(event: &Event) -> Self {
        event.clone()
    }
}

impl From<NewEvent> for Event {
    fn from(new: NewEvent) -> Self {
        let payload = check_json(&new.payload);
        Event { new, payload }
    }
}

impl Event {
    /// Creates an event of a type, such as `TicketCreatedEvent` or `ticket.created`, whose payload is serialized as JSON. A
    /// payload that cannot be serialized is reported when the event is emitted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use std::time::Duration;
    /// use turno::outbox::Event;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// let event = Event::new("TicketReminderEvent", &serde_json::json!({"ticket": 7}))
    ///     .ordering_key(7)
    ///     .header("tenant", "north")
    ///     .delay(Duration::from_secs(3600));
    /// let id = outbox.emit(&event).await?;
    /// let stored = outbox.find(id).await?.expect("it was emitted");
    /// assert_eq!((stored.key.as_deref(), stored.headers["tenant"].as_str()), (Some("7"), "north"));
    /// # Ok(()) }
    /// ```
    pub fn new(kind: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Self {
        let (text, payload) = match serde_json::to_string(payload) {
            Ok(text) => (text, Ok(())),
            Err(error) => (String::new(), Err(not_json(error))),
        };
        Event::with(kind.into(), text, payload)
    }

    /// Creates an event from a payload that is JSON text. The text is stored unchanged.
    ///
    /// ```
    /// use turno::outbox::Event;
    ///
    /// assert!(Event::from_json("TicketCreatedEvent", r#"{"ticket": 7}"#).payload_error().is_none());
    /// ```
    pub fn from_json(kind: impl Into<String>, payload: impl Into<String>) -> Self {
        let text = payload.into();
        let payload = check_json(&text);
        Event::with(kind.into(), text, payload)
    }

    fn with(kind: String, text: String, payload: Result<()>) -> Self {
        Event {
            new: NewEvent {
                id: None,
                kind,
                payload: text.into(),
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

    /// Sets the ordering key: a relay in the modes `ordered` (default) and `single` publishes the events of one key in the
    /// order of their emission. At most 255 bytes. Default: none.
    pub fn ordering_key(mut self, key: impl Display) -> Self {
        self.new.key = Some(key.to_string());
        self
    }

    /// Sets the correlation id, which connects messages across services. At most 255 bytes. Default: none.
    pub fn correlation_id(mut self, id: impl Display) -> Self {
        self.new.correlation_id = Some(id.to_string());
        self
    }

    /// Sets the W3C trace context, in the format of the `traceparent` header. Default: none.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.new.traceparent = Some(traceparent.into());
        self
    }

    /// Sets the W3C trace state, in the format of the `tracestate` header. At most 512 bytes. Default: none.
    pub fn tracestate(mut self, tracestate: impl Into<String>) -> Self {
        self.new.tracestate = Some(tracestate.into());
        self
    }

    /// Adds a header of the application, or replaces it. An event has at most 64 headers, with names of at most 100 bytes and values
    /// of at most 4096 bytes. Default: none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.new.headers.insert(name.into(), value.into());
        self
    }

    /// Publishes the event no sooner than this long after its emission, at most ten years. Default: at once.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.new.delay = Some(delay);
        self
    }

    /// Sets the id. An event that is emitted twice with one id is stored once, while the outbox keeps the record of the first.
    /// Default: a new UUIDv7.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> turno::Result<()> {
    /// use turno::outbox::Event;
    ///
    /// let outbox = turno::Turno::connect("sqlite::memory:").await?.outbox();
    /// let event = Event::new("TicketCreatedEvent", &7).id(uuid::Uuid::now_v7());
    /// assert_eq!(outbox.emit(&event).await?, outbox.emit(&event).await?);
    /// assert_eq!(outbox.stats().await?.pending, 1);
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: Uuid) -> Self {
        self.new.id = Some(id);
        self
    }

    /// Returns why the payload is invalid, if it is. Emitting the event returns the same error.
    pub fn payload_error(&self) -> Option<&Error> {
        self.payload.as_ref().err()
    }

    pub(super) fn check(&self, max_payload: usize) -> Result<()> {
        self.payload.clone()?;
        check::event(&self.new, max_payload)
    }

    /// Returns the event as stores take it, if it is valid.
    pub(super) fn into_checked(self, max_payload: usize) -> Result<NewEvent> {
        self.check(max_payload)?;
        Ok(self.new)
    }
}

fn check_json(text: &str) -> Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map(drop)
        .map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::caused(
        Kind::invalid("payload"),
        format!("payload cannot be written as JSON ({error}): emit what can"),
        error,
    )
}
