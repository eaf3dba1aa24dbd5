//! Sinks, to which a relay publishes events: one trait and its implementations.
//!
//! | sink | feature |
//! |---|---|
//! | `RabbitMq` | `rabbitmq` |
//! | `Nats` (JetStream) | `nats` |
//! | `Webhook` | `webhook` |
//! | [`Stdout`] | none |
//!
//! A sink of your own returns one [`PublishResult`] for every event that it was given. It distinguishes three failures:
//!
//! - An event is *refused*: the event is the cause. An attempt is counted.
//! - The sink is *out*: the broker or the network is the cause. No attempt is counted, and the relay retries with backoff.
//! - A destination of some events is *busy*, such as a full queue: no attempt is counted, and only events of the same type
//!   wait.
//!
//! ```
//! use async_trait::async_trait;
//! use turno::sink::{PublishResult, Outage, Outgoing, Sink};
//!
//! #[derive(Debug, Default)]
//! struct Collected(std::sync::Mutex<Vec<uuid::Uuid>>);
//!
//! #[async_trait]
//! impl Sink for Collected {
//!     fn name(&self) -> String {
//!         "a list in memory".to_owned()
//!     }
//!
//!     async fn ready(&self) -> Result<(), Outage> {
//!         Ok(())
//!     }
//!
//!     async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
//!         let mut all = self.0.lock().unwrap();
//!         all.extend(events.iter().map(|event| event.id));
//!         vec![PublishResult::Sent; events.len()]
//!     }
//! }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

/// Destination of events.
#[async_trait]
pub trait Sink: fmt::Debug + Send + Sync {
    /// Returns a display name. It must not contain a password.
    fn name(&self) -> String;

    /// Connects if necessary, and returns whether events can be published. Called before the first event, and again
    /// after each outage, with backoff, until it succeeds.
    ///
    /// # Errors
    /// Returns what is wrong, and what to do about it.
    async fn ready(&self) -> Result<(), Outage>;

    /// Publishes events in their order, and waits for the response to each. Returns one result per event, in the same
    /// order.
    ///
    /// If the future is dropped, any of the events may have arrived, and the relay assumes that.
    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult>;

    /// Closes connections in an orderly way.
    async fn close(&self) {}
}

/// An event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Event id and message id at the broker. It never changes.
    pub id: Uuid,
    /// Event type, such as `TicketCreatedEvent`.
    pub kind: String,
    /// Ordering key: events of one key are published in order.
    pub key: Option<String>,
    /// Correlation id across services.
    pub correlation_id: Option<String>,
    /// W3C trace context, `00-…-…-01`.
    pub traceparent: Option<String>,
    /// W3C trace state.
    pub tracestate: Option<String>,
    /// Headers of the application.
    pub headers: BTreeMap<String, String>,
    /// Time at which it was emitted, by the store's clock.
    pub emitted_at: Timestamp,
    /// Payload, as JSON text.
    pub payload: String,
    /// Number of this attempt, starting at 1. Attempts that ended by an outage or with the end of their relay are not counted.
    pub attempt: u32,
    /// Whether a relay may have published it before and ended without recording that. Sinks then add the header
    /// [`POSSIBLE_DUPLICATE`].
    pub possible_duplicate: bool,
}

/// Result of publishing one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishResult {
    /// The destination has stored it.
    Sent,
    /// The sink drops it on purpose, for this reason. It counts as dispatched, and is not published again.
    Dropped(String),
    /// The destination rejected it, for this reason. An attempt is counted.
    Refused(String),
    /// The connection broke while this event and others were being published, and one of them is the cause. The relay
    /// publishes them again in smaller and smaller batches, until the event is found, and only that one is refused.
    Suspect(String),
    /// The destination was unavailable: the event has not arrived.
    Unsent(Outage),
    /// No destination takes events of this type yet: the event has not arrived. No attempt is counted, and only events of the
    /// same type wait.
    Unrouted(Outage),
    /// The connection ended before a response: the event may have arrived.
    Doubtful(Outage),
    /// The destination takes no events of this type at the moment, such as a full queue; it takes others. The event may have
    /// arrived at another destination of the same type.
    Busy(Outage),
}

/// Why nothing can be published at the moment. No event is the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    reason: String,
    retry_after: Option<Duration>,
}

impl Outage {
    /// Creates an outage. The reason says what is wrong and what to do about it. It is shown to users, so it must not contain a
    /// password.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turno::sink::Outage;
    ///
    /// let outage = Outage::new("the broker rejects the login: check the password").with_retry_after(Duration::from_secs(60));
    /// assert_eq!(outage.retry_after(), Some(Duration::from_secs(60)));
    /// ```
    pub fn new(reason: impl Into<String>) -> Self {
        Outage {
            reason: reason.into(),
            retry_after: None,
        }
    }

    /// Sets the pause that the destination requests. The relay waits for that long, but at most an hour. Default: the relay's
    /// [backoff](crate::outbox::Relay::outage_backoff).
    #[must_use = "it is another outage"]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// Returns the pause that the destination requests.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Outage {}

#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod stdout;
#[cfg(any(feature = "nats", feature = "webhook"))]
mod tls;
mod unroutable;
mod url;
#[cfg(feature = "webhook")]
mod webhook;

#[cfg(feature = "nats")]
pub use nats::Nats;
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMq;
pub use stdout::Stdout;
pub use turno_api::outbox::{POSSIBLE_DUPLICATE, routing_key};
pub use unroutable::Unroutable;
pub use url::{SinkOptions, from_url};
#[cfg(feature = "webhook")]
pub use webhook::Webhook;
