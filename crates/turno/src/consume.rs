//! Consumer for events of an outbox: a loop that takes events from a RabbitMQ queue and passes them to your handler.
//!
//! Any outbox and any broker may deliver an event twice. To process it once, the handler records the event's id in the
//! same transaction as its effects. To lose none, the event is acknowledged to the broker only after that transaction
//! has been committed. The loop does the second part.

mod delivered;
mod session;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::delivered::Delivered;
use self::session::{Session, Tally};
use crate::HandlerError;
use crate::amqp::Address;
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::shutdown;

/// Default maximum number of deliveries of one event.
const MAX_DELIVERIES: u32 = 5;
/// Timeout of a request to the broker.
const SILENCE: Duration = Duration::from_secs(10);
/// Pauses between two attempts to connect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// Consumes a RabbitMQ queue, and passes every event to a handler. It does nothing until [`RabbitConsumer::run`] is called.
///
/// ```no_run
/// # async fn example() -> turno::Result<()> {
/// use turno::consume::RabbitConsumer;
///
/// let shutdown = std::future::pending(); // usually a signal
/// RabbitConsumer::new("amqp://user:password@broker:5672", "billing")?
///     .bind("ticketflow.events", "ticket.#")
///     .run(shutdown, async |event| {
///         // In one transaction: remember event.id, do the work, commit.
///         println!("{} {}", event.kind, event.payload);
///         Ok::<_, std::convert::Infallible>(())
///     })
///     .await?;
/// # Ok(()) }
/// ```
///
/// An event is acknowledged after its handler has returned `Ok`. After an `Err` or a panic, the event is requeued after a
/// pause, and delivered again. At [`max_deliveries`](Self::max_deliveries) it is rejected, and goes to the queue's
/// dead-letter exchange if it has one. The consumer reconnects if the connection is lost; unacknowledged events are then
/// delivered again.
///
/// With a [`concurrency`](Self::concurrency) of one, events are handled in the queue's order. A failed event is delivered
/// again after those that had been prefetched. If that matters, prefetch none: `prefetch(1)`.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before run"]
pub struct RabbitConsumer {
    address: Address,
    authorities: Option<String>,
    queue: String,
    bindings: Vec<(String, String)>,
    declare: bool,
    prefetch: Option<u16>,
    concurrency: usize,
    max_deliveries: u32,
    silence: Duration,
}

/// Counters of a consumer, from its start to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Deliveries whose handlers returned `Ok`.
    pub handled: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Events that were rejected permanently.
    pub rejected: u64,
}

impl RabbitConsumer {
    /// Creates a consumer of `queue` at `amqp://user:password@host:port/vhost`, or `amqps://…`.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid. The message does not contain it.
    pub fn new(url: &str, queue: impl Into<String>) -> Result<Self> {
        Ok(RabbitConsumer {
            address: Address::parse(url)?,
            authorities: None,
            queue: queue.into(),
            bindings: Vec::new(),
            declare: true,
            prefetch: None,
            concurrency: 1,
            max_deliveries: MAX_DELIVERIES,
            silence: SILENCE,
        })
    }

    /// Binds the queue to an exchange, for routing keys that match `pattern`: `ticket.*`, or `#` for all. Repeatable.
    pub fn bind(mut self, exchange: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.bindings.push((exchange.into(), pattern.into()));
        self
    }

    /// Declares nothing: the queue, its exchanges and its bindings must exist. Default: the consumer declares the queue
    /// (durable, quorum), the exchanges (durable, topic) and the bindings.
    pub fn no_declare(mut self) -> Self {
        self.declare = false;
        self
    }

    /// Sets how many events the broker delivers before it waits for acknowledgements. Default: twice the concurrency.
    /// Events that were prefetched and not begun when a consumer ends count as delivered once more.
    pub fn prefetch(mut self, prefetch: u16) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// Sets how many handlers run concurrently. Default: 1.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets the number of deliveries after which a failed event is rejected. Default: 5. The loop uses the delivery count of
    /// quorum queues. In a queue that does not count deliveries, a failing event is delivered again without a limit.
    pub fn max_deliveries(mut self, max_deliveries: u32) -> Self {
        self.max_deliveries = max_deliveries;
        self
    }

    /// Sets CA certificates in PEM that `amqps://` trusts in addition to the public ones. Default: none.
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Consumes until `shutdown` resolves, then lets running handlers finish, and acknowledges their events.
    ///
    /// Not cancel-safe: if the future is dropped, it acknowledges nothing more, and events that handlers have processed are
    /// delivered again.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid. If the broker is unavailable or rejects the queue, the consumer retries
    /// without a limit and logs warnings.
    pub async fn run<H, F, E>(
        self,
        shutdown: impl Future<Output = ()> + Send,
        handler: H,
    ) -> Result<ConsumerReport>
    where
        H: Fn(Delivered) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
    {
        self.check()?;
        let stop = CancellationToken::new();
        let consume = self.consume(&stop, Arc::new(handler));
        Ok(shutdown::cancel_when(shutdown, &stop, consume).await)
    }

    async fn consume<H, F, E>(
        &self,
        shutdown: &CancellationToken,
        handler: Arc<H>,
    ) -> ConsumerReport
    where
        H: Fn(Delivered) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
    {
        let tally = Arc::new(Tally::default());
        let mut attempts = RECONNECT.attempts();
        while !shutdown.is_cancelled() {
            let session = Session {
                consumer: self,
                shutdown,
                handler: &handler,
                tally: &tally,
            };
            let before = tally.report();
            let Err(reason) = session.run().await else {
                break;
            };
            // A connection on which events were processed resets the backoff.
            if tally.report() != before {
                attempts.reset();
            }
            tracing::warn!(
                broker = %self.address,
                queue = self.queue,
                reason,
                "the consumer has no connection, and tries again"
            );
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = attempts.pause() => {}
            }
        }
        tally.report()
    }

    fn check(&self) -> Result<()> {
        let names = self.bindings.iter().flat_map(|(name, key)| [name, key]);
        if let Some(long) = names.chain([&self.queue]).find(|name| name.len() > 255) {
            return Err(Error::invalid(
                "queue",
                format!("names in RabbitMQ have no more than 255 bytes: {long}"),
            ));
        }
        if self.queue.is_empty() {
            return Err(Error::invalid("queue", "the queue must have a name"));
        }
        if self.concurrency == 0 {
            return Err(Error::invalid(
                "concurrency",
                "concurrency must be at least 1",
            ));
        }
        if self.prefetch == Some(0) {
            return Err(Error::invalid("prefetch", "prefetch must be at least 1"));
        }
        Ok(())
    }
}
