//! An event, from the transaction that emits it until a consumer has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use deadpool_postgres::Pool;
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, ConfirmSelectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use turno::Turno;
use turno::outbox::{Event, Mode};
use turno::sink::{Outage, Outgoing, PublishResult, RabbitMq, Sink};

use super::background::{Arrivals, Background};
use super::servers::pool;
use super::{Operation, POOL, Subject};
use crate::outbox::broker::{self, EXCHANGE, QUEUE};
use crate::outbox::by_row::{self, ByRow, PublishRow};
use crate::outbox::{PAYLOAD_BYTES, WINDOW};

/// Pause of the hand-written relay after it found no row.
const POLL: Duration = Duration::from_millis(10);
/// Digits of an event's number, at the begin of its payload.
const DIGITS: usize = 20;

/// A JSON string that begins with the number.
fn payload(number: u64) -> String {
    let body = "x".repeat(PAYLOAD_BYTES - 2 - DIGITS);
    format!("{number:0DIGITS$}{body}")
}

fn number(payload: &[u8]) -> Result<u64> {
    let digits = payload.get(1..=DIGITS).context("a payload has a number")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// With RabbitMQ between relay and consumer.
pub async fn turno(url: &str, broker_url: &str) -> Result<Subject> {
    let queue = Queue::open(broker_url).await?;
    let sink = Arc::new(RabbitMq::new(broker_url)?.exchange(EXCHANGE));
    let operation = TurnoOutbox::open(url).await?;
    operation.relay(sink).await;
    queue
        .consume(&operation.arrivals, &operation.background)
        .await?;
    Ok(Subject::new("turno, parallel", operation))
}

/// With a sink that is the consumer.
pub async fn turno_in_process(url: &str) -> Result<Subject> {
    let operation = TurnoOutbox::open(url).await?;
    let sink = InProcess(operation.arrivals.clone());
    operation.relay(Arc::new(sink)).await;
    Ok(Subject::new("turno, parallel", operation))
}

#[derive(Debug)]
struct InProcess(Arrivals);

#[async_trait]
impl Sink for InProcess {
    fn name(&self) -> String {
        "this process".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        for event in events {
            if let Ok(number) = number(event.payload.as_bytes()) {
                self.0.arrived(number);
            }
        }
        vec![PublishResult::Sent; events.len()]
    }
}

struct TurnoOutbox {
    turno: Turno,
    pool: Pool,
    arrivals: Arrivals,
    background: Background,
}

impl TurnoOutbox {
    async fn open(url: &str) -> Result<Self> {
        Ok(TurnoOutbox {
            turno: Turno::builder().connections(POOL).connect(url).await?,
            pool: pool(url)?,
            arrivals: Arrivals::default(),
            background: Background::default(),
        })
    }

    async fn relay(&self, sink: Arc<dyn Sink>) {
        let relay = self.turno.outbox().relay(sink);
        let relay = relay.mode(Mode::Parallel).batch(WINDOW);
        let stopped = self.background.stop.clone().cancelled_owned();
        self.background
            .spawn(async move {
                relay.run(stopped).await?;
                Ok(())
            })
            .await;
    }

    async fn emit(&self, number: u64) -> Result<()> {
        let mut client = self.pool.get().await?;
        let client: &mut tokio_postgres::Client = &mut client;
        let mut tx = client.transaction().await?;
        let event = Event::new("TicketCreatedEvent", &payload(number));
        self.turno.outbox().emit_in(&mut tx, &event).await?;
        tx.commit().await?;
        Ok(())
    }
}

#[async_trait]
impl Operation for TurnoOutbox {
    async fn run(&self, number: u64) -> Result<Instant> {
        let arrival = self.arrivals.expect(number);
        self.emit(number).await?;
        arrival.time().await
    }

    async fn close(&self) -> Result<()> {
        self.background.close().await?;
        self.turno.close().await;
        Ok(())
    }
}

/// With RabbitMQ between relay and consumer.
pub async fn hand_written(url: &str, broker_url: &str) -> Result<Subject> {
    let queue = Queue::open(broker_url).await?;
    let channel = queue.channel.clone();
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let operation = HandWritten::open(url)?;
    operation.relay(url, channel).await?;
    queue
        .consume(&operation.arrivals, &operation.background)
        .await?;
    Ok(Subject::new("row by row", operation))
}

/// Published to this process, which is the consumer.
pub async fn hand_written_in_process(url: &str) -> Result<Subject> {
    let operation = HandWritten::open(url)?;
    operation.relay(url, operation.arrivals.clone()).await?;
    Ok(Subject::new("row by row", operation))
}

impl PublishRow for Arrivals {
    async fn publish(&self, payload: &str) -> Result<()> {
        self.arrived(number(payload.as_bytes())?);
        Ok(())
    }
}

struct HandWritten {
    pool: Pool,
    arrivals: Arrivals,
    background: Background,
}

impl HandWritten {
    fn open(url: &str) -> Result<Self> {
        Ok(HandWritten {
            pool: pool(url)?,
            arrivals: Arrivals::default(),
            background: Background::default(),
        })
    }

    /// Creates the tables, and publishes what is inserted.
    async fn relay(&self, url: &str, sink: impl PublishRow + 'static) -> Result<()> {
        let relay = ByRow::create(url).await?;
        let stop = self.background.stop.clone();
        self.background
            .spawn(async move {
                while !stop.is_cancelled() {
                    if relay.round(&sink).await? == 0 {
                        tokio::time::sleep(POLL).await;
                    }
                }
                Ok(())
            })
            .await;
        Ok(())
    }
}

#[async_trait]
impl Operation for HandWritten {
    async fn run(&self, number: u64) -> Result<Instant> {
        let arrival = self.arrivals.expect(number);
        {
            let client = self.pool.get().await?;
            let insert = client.prepare_cached(by_row::FILL).await?;
            let payload = format!("\"{}\"", payload(number));
            client.execute(&insert, &[&payload, &1_i32]).await?;
        }
        arrival.time().await
    }

    async fn close(&self) -> Result<()> {
        self.background.close().await
    }
}

/// The queue of the broker, and its consumer.
struct Queue {
    connection: Connection,
    channel: Channel,
    deliveries: Consumer,
}

impl Queue {
    async fn open(url: &str) -> Result<Self> {
        let (connection, channel) = broker::fresh(url).await?;
        let deliveries = channel
            .basic_consume(
                QUEUE.into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        Ok(Queue {
            connection,
            channel,
            deliveries,
        })
    }

    /// Consumes until the background is stopped.
    async fn consume(mut self, arrivals: &Arrivals, background: &Background) -> Result<()> {
        let (arrivals, stop) = (arrivals.clone(), background.stop.clone());
        background
            .spawn(async move {
                let stopped = stop.cancelled();
                tokio::pin!(stopped);
                loop {
                    let delivery = tokio::select! {
                        delivery = self.deliveries.next() => delivery.context("the broker went away")??,
                        () = &mut stopped => break,
                    };
                    arrivals.arrived(number(&delivery.data)?);
                    delivery.acker.ack(BasicAckOptions::default()).await?;
                }
                self.connection.close(0, "done".into()).await?;
                Ok(())
            })
            .await;
        Ok(())
    }
}
