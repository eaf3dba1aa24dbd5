//! Sink for RabbitMQ: a durable topic exchange, persistent messages, and a publisher confirm for every event.

mod batch;
mod message;
mod pool;
mod response_timeout;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use tokio::sync::Mutex;

use self::batch::{Batch, End};
use self::pool::{Lent, Pool};
use self::response_timeout::ResponseTimeout;
use super::{Outage, Outgoing, PublishResult, Sink, Unroutable};
use crate::amqp::link::Dial;
use crate::amqp::{Address, fault};
use crate::error::Result;

/// Default exchange.
const EXCHANGE: &str = "turno.events";
/// Default time without a response after which the broker counts as unavailable.
const SILENCE: Duration = Duration::from_secs(10);

/// Publishes events to a RabbitMQ topic exchange.
///
/// A message is persistent, has the event's id as its message id, and the [routing key](super::routing_key) of its
/// type. Its headers are those of the event and `Type`, `CorrelationId`, `Timestamp` (seconds since 1970), `Key` (the
/// ordering key), `traceparent` and `tracestate`. Headers of the event with these names are not sent. A possible
/// duplicate has the header [`x-possible-duplicate`](super::POSSIBLE_DUPLICATE).
///
/// An event counts as sent when the broker has confirmed it. An event that no queue is bound for is refused, not lost; or what
/// [`RabbitMq::unroutable`] says.
///
/// ```no_run
/// # fn main() -> turno::Result<()> {
/// use turno::sink::RabbitMq;
///
/// let sink = RabbitMq::new("amqp://user:password@broker:5672/shop")?.exchange("ticketflow.events");
/// # Ok(()) }
/// ```
#[must_use = "events go to it through a relay"]
pub struct RabbitMq {
    address: Address,
    exchange: String,
    declaring: Declare,
    unroutable: Unroutable,
    unroutable_of: BTreeMap<String, Unroutable>,
    authorities: Option<String>,
    silence: Duration,
    pool: Mutex<Option<Arc<Pool>>>,
}

/// What [`Sink::ready`] does about the exchange.
#[derive(Debug, Clone, Copy)]
enum Declare {
    Create,
    Check,
}

impl RabbitMq {
    /// Creates a sink at `amqp://user:password@host:port/vhost`, or `amqps://…`. It connects on first use.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid. The message does not contain it.
    pub fn new(url: &str) -> Result<Self> {
        Ok(RabbitMq {
            address: Address::parse(url)?,
            exchange: EXCHANGE.to_owned(),
            declaring: Declare::Create,
            unroutable: Unroutable::default(),
            unroutable_of: BTreeMap::new(),
            authorities: None,
            silence: SILENCE,
            pool: Mutex::new(None),
        })
    }

    /// Sets the exchange. Default: `turno.events`. It is declared as durable, of type topic.
    pub fn exchange(mut self, name: impl Into<String>) -> Self {
        self.exchange = name.into();
        self
    }

    /// Uses an existing exchange of any type: it is checked and not declared, which needs fewer rights.
    pub fn existing_exchange(mut self) -> Self {
        self.declaring = Declare::Check;
        self
    }

    /// Sets what happens to an event that no queue is bound for. Default: [`Unroutable::Dead`].
    pub fn unroutable(mut self, choice: Unroutable) -> Self {
        self.unroutable = choice;
        self
    }

    /// Sets [`RabbitMq::unroutable`] for the events of one type.
    pub fn unroutable_of_type(mut self, kind: impl Into<String>, choice: Unroutable) -> Self {
        self.unroutable_of.insert(kind.into(), choice);
        self
    }

    /// Sets how long the broker may send nothing, during connecting or while confirms are awaited. Default: 10 seconds.
    pub fn confirm_timeout(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets CA certificates in PEM that `amqps://` trusts in addition to the public ones. Default: none.
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Returns the connection; connects if there is none.
    async fn pool(&self) -> Result<Arc<Pool>, Outage> {
        let mut slot = self.pool.lock().await;
        if let Some(pool) = slot.as_ref()
            && pool.link.is_alive()
        {
            return Ok(pool.clone());
        }
        *slot = None;
        let exchange = ShortString::try_new(self.exchange.as_str()).map_err(|_| {
            Outage::new("the name of the exchange has more than 255 bytes: RabbitMQ has no such")
        })?;
        let dial = Dial {
            address: &self.address,
            authorities: self.authorities.as_deref(),
            name: "turno relay",
            timeout: self.silence,
        };
        let link = dial.connect().await.map_err(|reason| {
            Outage::new(format!(
                "cannot connect to RabbitMQ at {}: {reason}",
                self.address
            ))
        })?;
        tracing::debug!(broker = %self.address, "connected to RabbitMQ");
        let pool = Arc::new(Pool::new(link, exchange));
        *slot = Some(pool.clone());
        Ok(pool)
    }

    async fn lend(&self, pool: &Arc<Pool>) -> Result<Lent, Outage> {
        if let Some(reason) = pool.link.blocked() {
            return Err(verdict::blocked(&reason));
        }
        match tokio::time::timeout(self.silence, pool.lend()).await {
            Ok(Ok(lent)) => Ok(lent),
            Ok(Err(error)) => Err(self.outage("opens no channel", &error)),
            Err(_) => {
                pool.link.cut();
                Err(Outage::new(format!(
                    "RabbitMQ at {} opens no channel: no answer within {:?}",
                    self.address, self.silence
                )))
            }
        }
    }

    async fn declare(&self, pool: &Pool, lent: &Lent) -> Result<(), Outage> {
        let options = ExchangeDeclareOptions {
            passive: matches!(self.declaring, Declare::Check),
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let declared = lent.channel().exchange_declare(
            pool.exchange.clone(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        match tokio::time::timeout(self.silence, declared).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                Err(self.outage(&format!("will not have exchange {}", self.exchange), &error))
            }
            Err(_) => Err(Outage::new(format!(
                "RabbitMQ at {} does not answer: it had {:?}",
                self.address, self.silence
            ))),
        }
    }

    fn outage(&self, does: &str, error: &lapin::Error) -> Outage {
        Outage::new(format!(
            "RabbitMQ at {} {does}: {}",
            self.address,
            fault::explain(error)
        ))
    }
}

#[async_trait]
impl Sink for RabbitMq {
    fn name(&self) -> String {
        format!("RabbitMQ at {}, exchange {}", self.address, self.exchange)
    }

    async fn ready(&self) -> Result<(), Outage> {
        let pool = self.pool().await?;
        let lent = self.lend(&pool).await?;
        match self.declare(&pool, &lent).await {
            Ok(()) => lent.give_back(),
            Err(outage) => {
                // The broker has closed the channel. A connection that does not respond is closed too.
                match lent.channel().status().connected() {
                    true => drop(lent),
                    false => lent.discard(),
                }
                return Err(outage);
            }
        }
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let none = |outage: Outage| vec![PublishResult::Unsent(outage); events.len()];
        let pool = match self.pool().await {
            Ok(pool) => pool,
            Err(outage) => return none(outage),
        };
        let lent = match self.lend(&pool).await {
            Ok(lent) => lent,
            Err(outage) => return none(outage),
        };
        let timeout = ResponseTimeout {
            silence: self.silence,
            blocked: pool.link.watch_blocked(),
        };
        let mut batch = Batch::new(
            lent.channel(),
            &pool.exchange,
            pool.link.frame_bytes(),
            timeout,
        );
        let scouts = if pool.is_proven() { 0 } else { 1 };
        let (first, others) = events.split_at(scouts.min(events.len()));
        let mut ended = batch.publish(first).await;
        if ended.is_ok() {
            pool.prove();
            ended = batch.publish(others).await;
        }
        let outcome = batch.into_outcome();
        match &ended {
            Ok(()) => lent.give_back(),
            Err(End::Failed(_) | End::Blocked(_)) if outcome.tidy => lent.discard(),
            Err(_) => drop(lent),
        }
        let unroutable = |kind: &str| self.unroutable_of.get(kind).copied();
        let rules = verdict::Rules {
            exchange: &self.exchange,
            unroutable: &|kind| unroutable(kind).unwrap_or(self.unroutable),
        };
        verdict::fates(events, rules, outcome, ended.err().as_ref())
    }

    async fn close(&self) {
        if let Some(pool) = self.pool.lock().await.take() {
            pool.link.close().await;
        }
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq")
            .field("address", &self.address)
            .field("exchange", &self.exchange)
            .field("confirm_timeout", &self.silence)
            .finish_non_exhaustive()
    }
}
