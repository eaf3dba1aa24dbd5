//! The other end of an outbox: a loop that takes events from a queue of RabbitMQ and hands them to your code.
//!
//! An event may come twice, from any outbox and by any broker. What makes it happen once is that the handler remembers
//! its id in the same transaction as its effects; what makes it never get lost is that the broker is told of success
//! only after that transaction has been committed. The loop sees to the second.

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
use crate::error::{Error, Result};
use crate::shutdown;

/// How many deliveries of one event, unless said otherwise.
const MAX_DELIVERIES: u32 = 5;
/// How long the broker may take to answer.
const SILENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause between two attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Consumes a queue of RabbitMQ, and hands every event to a handler. Nothing happens before [`RabbitConsumer::run`].
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
/// An event is acknowledged after its handler has answered `Ok`. After an `Err` or a panic it is given back to the queue,
/// after a pause, and comes again; at [`max_deliveries`](Self::max_deliveries) it is rejected, and goes to the queue's
/// dead-letter exchange if it has one. A lost connection is made again, and what was not acknowledged comes again.
///
/// With a [`concurrency`](Self::concurrency) of one, events are handled in the queue's order. One that failed comes again
/// after those that had been fetched ahead; where that matters, fetch nothing ahead: `prefetch(1)`.
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

/// What a consumer did until it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Deliveries whose handlers answered `Ok`.
    pub handled: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Events that were rejected for good.
    pub rejected: u64,
}

impl RabbitConsumer {
    /// A consumer of `queue` at `amqp://user:password@host:port/vhost`, or `amqps://…`.
    ///
    /// # Errors
    /// If the URL cannot be read; the message does not repeat it.
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

    /// Binds the queue to an exchange, for routing keys like `pattern`: `ticket.*`, or `#` for all. May be said often.
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

    /// How many events the broker hands over before it waits for acknowledgements; twice the concurrency otherwise.
    /// What was fetched ahead and not begun when a consumer ends has been delivered once more for nothing.
    pub fn prefetch(mut self, prefetch: u16) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// How many handlers run at once; one otherwise.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// After how many deliveries a failure is the last; 5 otherwise. Quorum queues count deliveries, and the loop
    /// believes them; in a queue that does not, an event comes again for ever.
    pub fn max_deliveries(mut self, max_deliveries: u32) -> Self {
        self.max_deliveries = max_deliveries;
        self
    }

    /// Certificates of authorities in PEM that `amqps://` trusts beside the public ones.
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Consumes until `shutdown` resolves, then lets the handlers that run finish, and acknowledges what they did.
    ///
    /// Not cancel-safe in this: dropped half-way, it acknowledges nothing more, and what its handlers did comes again.
    ///
    /// # Errors
    /// If an argument is out of rule. A broker that is away, or will not have the queue, is tried again for as long as it
    /// takes; warnings say so.
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
        let mut pause = PAUSES.0;
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
            // A connection that did something was a good one.
            if tally.report() != before {
                pause = PAUSES.0;
            }
            tracing::warn!(
                broker = %self.address,
                queue = self.queue,
                reason,
                "the consumer has no connection, and tries again in {pause:?}"
            );
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
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
