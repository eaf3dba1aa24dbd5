//! Where events go: one trait, and the sinks that come with it.
//!
//! | sink | feature |
//! |---|---|
//! | `RabbitMq` | `rabbitmq` |
//! | `Nats` (JetStream) | `nats` |
//! | `Webhook` | `webhook` |
//! | [`Stdout`] | always there |
//!
//! A sink of your own answers one [`Fate`] for every event that it was given. It keeps three things apart: an
//! event that is *refused* (it is to blame, and spends an attempt), a sink that is *out* (the broker or the way to it is to
//! blame; no attempt is spent, and the relay tries again after growing pauses), and a destination of some events that is
//! *busy*, such as a full queue (no attempt is spent, and only events of the same type wait).
//!
//! ```
//! use async_trait::async_trait;
//! use turno::sink::{Fate, Outage, Outgoing, Sink};
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
//!     async fn publish(&self, events: &[Outgoing]) -> Vec<Fate> {
//!         let mut all = self.0.lock().unwrap();
//!         all.extend(events.iter().map(|event| event.id));
//!         vec![Fate::Sent; events.len()]
//!     }
//! }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

/// Where events go.
#[async_trait]
pub trait Sink: fmt::Debug + Send + Sync {
    /// What it is, as people see it: never with a password in it.
    fn name(&self) -> String;

    /// Connects if need be, and says whether events can be published. Asked before the first event, and again
    /// after each outage, with growing pauses, until it succeeds.
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    async fn ready(&self) -> Result<(), Outage>;

    /// Publishes events in their order, and waits until the other side has answered for each. Answers as many
    /// fates, in the same order.
    ///
    /// If the future is dropped, any of the events may have arrived, and the relay treats them so.
    async fn publish(&self, events: &[Outgoing]) -> Vec<Fate>;

    /// Ends connections in an orderly way.
    async fn close(&self) {}
}

/// An event on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Stable for ever, and the broker's message id.
    pub id: Uuid,
    /// What happened: `TicketCreatedEvent`.
    pub kind: String,
    /// Events with one key are in order.
    pub key: Option<String>,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// The W3C trace context, `00-…-…-01`.
    pub traceparent: Option<String>,
    /// The W3C trace state.
    pub tracestate: Option<String>,
    /// The application's own headers.
    pub headers: BTreeMap<String, String>,
    /// When it was emitted, on the store's clock.
    pub emitted_at: Timestamp,
    /// What it says, as JSON text.
    pub payload: String,
    /// Counted from one; outages and vanished relays are not counted.
    pub attempt: u32,
    /// It may have been published before, by a relay that did not live to say so: sinks label it
    /// [`POSSIBLE_DUPLICATE`].
    pub possible_duplicate: bool,
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The other side has it, for good.
    Sent,
    /// The other side will not have it, and says why: an attempt is spent.
    Refused(String),
    /// The other side broke off while this one and others were under way, and one of them is to blame. The relay
    /// publishes them again in smaller and smaller parts, until it is found and alone refused.
    Suspect(String),
    /// The other side was not there: nothing has arrived.
    Unsent(Outage),
    /// The other side went away before it answered: it may have arrived.
    Doubtful(Outage),
    /// The other side takes no events of this type at the moment, such as a queue that is full; it takes others. It may have
    /// arrived at another destination of the same type.
    Busy(Outage),
}

/// Why nothing can be published at the moment. No event is to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    reason: String,
    retry_after: Option<Duration>,
}

impl Outage {
    /// What is wrong, and what to do about it: shown to people, so without a password in it.
    pub fn new(reason: impl Into<String>) -> Self {
        Outage {
            reason: reason.into(),
            retry_after: None,
        }
    }

    /// The other side asks to be left alone for so long. The relay does so, for at most an hour.
    #[must_use = "it is another outage"]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// For how long the other side asks to be left alone.
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
mod url;
#[cfg(feature = "webhook")]
mod webhook;

#[cfg(feature = "nats")]
pub use nats::Nats;
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMq;
pub use stdout::Stdout;
pub use turno_api::outbox::{POSSIBLE_DUPLICATE, routing_key};
pub use url::{SinkOptions, from_url};
#[cfg(feature = "webhook")]
pub use webhook::Webhook;
