//! One connection of a consumer, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer, ExchangeKind};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ConsumerReport, Delivered, RabbitConsumer, settle};
use crate::HandlerError;
use crate::amqp::fault;
use crate::amqp::link::{Dial, Link};

/// Maximum time for which handlers may continue after shutdown has begun.
const GRACE: Duration = Duration::from_secs(30);

/// Interval of the check whether the connection is still alive.
const LOOK: Duration = Duration::from_secs(1);

/// Counters over all connections.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) handled: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rejected: AtomicU64,
}

impl Tally {
    pub(super) fn report(&self) -> ConsumerReport {
        ConsumerReport {
            handled: self.handled.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
        }
    }
}

/// One connection.
pub(super) struct Session<'a, H> {
    pub(super) consumer: &'a RabbitConsumer,
    pub(super) shutdown: &'a CancellationToken,
    pub(super) handler: &'a Arc<H>,
    pub(super) tally: &'a Arc<Tally>,
}

impl<H, F, E> Session<'_, H>
where
    H: Fn(Delivered) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<HandlerError> + Send + 'static,
{
    /// Consumes until shutdown, or until the connection fails; then returns why.
    pub(super) async fn run(&self) -> Result<(), String> {
        let dial = Dial {
            address: &self.consumer.address,
            authorities: self.consumer.authorities.as_deref(),
            name: "turno consumer",
            timeout: self.consumer.silence,
        };
        let link = tokio::select! {
            () = self.shutdown.cancelled() => return Ok(()),
            link = dial.connect() => link?,
        };
        let begun = async {
            let channel = link.open_channel().await?;
            let deliveries = self.begin(&channel).await?;
            Ok((channel, deliveries))
        };
        let (channel, deliveries) = tokio::time::timeout(self.consumer.silence, begun)
            .await
            .map_err(|_| "the broker does not answer".to_owned())?
            .map_err(|error: lapin::Error| fault::explain(&error))?;
        let ended = self.consume(&link, &channel, deliveries).await;
        link.close().await;
        ended
    }

    /// Declares queue, exchanges and bindings, and starts to consume.
    async fn begin(&self, channel: &Channel) -> lapin::Result<Consumer> {
        let RabbitConsumer {
            queue,
            bindings,
            declare,
            ..
        } = self.consumer;
        if *declare {
            let mut quorum = FieldTable::default();
            quorum.insert(
                "x-queue-type".into(),
                AMQPValue::LongString("quorum".into()),
            );
            channel
                .queue_declare(
                    queue.as_str().into(),
                    QueueDeclareOptions::durable(),
                    quorum,
                )
                .await?;
            for (exchange, pattern) in bindings {
                let durable = ExchangeDeclareOptions {
                    durable: true,
                    ..ExchangeDeclareOptions::default()
                };
                channel
                    .exchange_declare(
                        exchange.as_str().into(),
                        ExchangeKind::Topic,
                        durable,
                        FieldTable::default(),
                    )
                    .await?;
                channel
                    .queue_bind(
                        queue.as_str().into(),
                        exchange.as_str().into(),
                        pattern.as_str().into(),
                        QueueBindOptions::default(),
                        FieldTable::default(),
                    )
                    .await?;
            }
        }
        channel
            .basic_qos(self.prefetch(), BasicQosOptions::default())
            .await?;
        channel
            .basic_consume(
                queue.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await
    }

    fn prefetch(&self) -> u16 {
        let twice = self.consumer.concurrency.saturating_mul(2);
        let usual = u16::try_from(twice).unwrap_or(u16::MAX);
        self.consumer.prefetch.unwrap_or(usual)
    }

    /// Passes deliveries to handlers. At its end it always waits for running handlers: their events are
    /// acknowledged if that is still possible, and this consumer never handles one event twice at the same time.
    async fn consume(
        &self,
        link: &Link,
        channel: &Channel,
        mut deliveries: Consumer,
    ) -> Result<(), String> {
        let mut running = JoinSet::new();
        // The stream of deliveries does not always end when the connection does.
        let mut look = tokio::time::interval(LOOK);
        let ended = loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break Ok(()),
                Some(_) = running.join_next(), if !running.is_empty() => {}
                _ = look.tick() => {
                    if !link.is_alive() {
                        break Err("the connection is lost".to_owned());
                    }
                }
                next = deliveries.next(), if running.len() < self.consumer.concurrency => match next {
                    Some(Ok(delivery)) => {
                        let attempt = settle::Attempt {
                            handler: self.handler.clone(),
                            tally: self.tally.clone(),
                            shutdown: self.shutdown.clone(),
                            queue: self.consumer.queue.clone(),
                            max_deliveries: self.consumer.max_deliveries,
                            silence: self.consumer.silence,
                        };
                        running.spawn(attempt.run(delivery));
                    }
                    Some(Err(error)) => break Err(fault::explain(&error)),
                    None => break Err("the broker has cancelled the consumer: has the queue been deleted?".to_owned()),
                },
            }
        };
        if ended.is_ok() {
            // Stops the deliveries. Prefetched ones go back to the queue when the channel ends.
            let stop = channel.basic_cancel(deliveries.tag(), BasicCancelOptions::default());
            let _ = tokio::time::timeout(self.consumer.silence, stop).await;
        }
        let finished = async { while running.join_next().await.is_some() {} };
        match ended {
            Ok(()) => {
                if tokio::time::timeout(GRACE, finished).await.is_err() {
                    tracing::warn!(
                        queue = self.consumer.queue,
                        "handlers did not end within {GRACE:?}, and are dropped"
                    );
                }
            }
            Err(_) => finished.await,
        }
        ended
    }
}
