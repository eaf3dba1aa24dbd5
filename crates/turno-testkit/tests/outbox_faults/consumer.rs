//! A consumer with its own table: it handles each event in one transaction with `seen`, and acknowledges after
//! the commit. It survives restarts of the broker and of its database.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::tx::Transaction;
use uuid::Uuid;

use turno_testkit::faults::{connect, sqlite};
use turno_testkit::history::outbox::{Answer, Call};
use turno_testkit::history::{self, Recorder};

use crate::fixture::Fixture;

/// After this time without deliveries it reconnects: the client library does not notice every broker that ends.
const SILENCE: Duration = Duration::from_secs(5);
/// Maximum number of events in one transaction.
const TOGETHER: usize = 200;
/// Pause before it reconnects.
const AGAIN: Duration = Duration::from_millis(50);

/// Whether it marks events as processed before it handles them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    Detected,
    /// The control.
    Undetected,
}

/// Type of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// The recommended type. After a kill of a broker with a single node, it may never elect a leader again.
    Quorum,
    /// Durable, and available after a kill.
    Classic,
}

/// A received message.
struct Arrival {
    event: Uuid,
    name: String,
    key: String,
    number: i64,
    /// The relay marked it as a possible duplicate.
    labelled: bool,
    /// The broker marked it as redelivered.
    redelivered: bool,
}

pub struct Consumer {
    /// Names of all received events, in order.
    arrivals: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
}

struct Work {
    store: String,
    broker: String,
    exchange: String,
    queue: Queue,
    seen: Duplicates,
    turno: Turno,
    arrivals: Arc<Mutex<Vec<String>>>,
    recorder: Recorder,
    connections: AtomicU64,
    stop: CancellationToken,
}

impl Consumer {
    /// Declares a quorum queue for `ticket.#` and starts. Returns when it consumes.
    pub fn start(fixture: &Fixture, broker: &str, exchange: &str, seen: Duplicates) -> Self {
        Self::from(Queue::Quorum, fixture, broker, exchange, seen)
    }

    /// The same with another type of queue.
    pub fn from(
        queue: Queue,
        fixture: &Fixture,
        broker: &str,
        exchange: &str,
        seen: Duplicates,
    ) -> Self {
        let arrivals = Arc::default();
        let stop = CancellationToken::new();
        let work = Work {
            store: fixture.url.clone(),
            broker: broker.to_owned(),
            exchange: exchange.to_owned(),
            queue,
            seen,
            turno: fixture.turno.clone(),
            arrivals: Arc::clone(&arrivals),
            recorder: Recorder::create(fixture.folder.path(), "consumer").unwrap(),
            connections: AtomicU64::new(0),
            stop: stop.clone(),
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        // A thread, because a transaction of rusqlite cannot be sent to another one.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let stop = work.stop.clone();
            // Cancelled at any point: a call to a killed broker may never return.
            runtime.block_on(stop.run_until_cancelled(work.run(ready)));
        });
        is_ready.recv().expect("the consumer listens");
        Self {
            arrivals,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns whether this event was received.
    pub fn has_received(&self, name: &str) -> bool {
        self.arrivals.lock().unwrap().iter().any(|one| one == name)
    }

    pub fn count(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    async fn run(self, ready: std::sync::mpsc::Sender<()>) {
        // Logged once per outage: a broker that is down refuses hundreds of connections.
        let mut said = String::new();
        loop {
            if let Err(error) = self.consume(&ready).await {
                let error = format!("{error:#}");
                if error != said {
                    eprintln!("the consumer begins anew: {error}");
                    said = error;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn consume(&self, ready: &std::sync::mpsc::Sender<()>) -> Result<()> {
        let connection = Connection::connect(&self.broker, ConnectionProperties::default()).await?;
        let ended = self.consume_on(&connection, ready).await;
        // Closes the connection, so that the broker requeues unhandled deliveries in their position. Without that, the next
        // consumer would first get later events.
        let _ = tokio::time::timeout(SILENCE, connection.close(200, "ended".into())).await;
        ended
    }

    async fn consume_on(
        &self,
        connection: &Connection,
        ready: &std::sync::mpsc::Sender<()>,
    ) -> Result<()> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let exchange = self.exchange.as_str();
        channel
            .exchange_declare(
                exchange.into(),
                ExchangeKind::Topic,
                durable,
                FieldTable::default(),
            )
            .await?;
        let mut kind = FieldTable::default();
        let name = match self.queue {
            Queue::Quorum => "quorum",
            Queue::Classic => "classic",
        };
        kind.insert("x-queue-type".into(), AMQPValue::LongString(name.into()));
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(exchange.into(), durable, kind)
            .await?;
        channel
            .queue_bind(
                exchange.into(),
                exchange.into(),
                "ticket.#".into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
        channel.basic_qos(500, BasicQosOptions::default()).await?;
        let mut deliveries = channel
            .basic_consume(
                exchange.into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        let _ = ready.send(());
        loop {
            let first = tokio::time::timeout(SILENCE, deliveries.next()).await?;
            let first = first.context("the broker went away")??;
            let mut some = vec![first];
            while some.len() < TOGETHER {
                match deliveries.next().now_or_never() {
                    Some(Some(more)) => some.push(more?),
                    Some(None) | None => break,
                }
            }
            let arrived: Vec<Arrival> = some.iter().map(arrival).collect::<Result<_>>()?;
            for arrival in &arrived {
                self.record(arrival, number);
            }
            self.handle(&arrived).await?;
            let last = &some[some.len() - 1];
            let acknowledged = last.acker.ack(BasicAckOptions { multiple: true });
            tokio::time::timeout(SILENCE, acknowledged).await??;
        }
    }

    fn record(&self, arrival: &Arrival, connection: u64) {
        let pending = self.recorder.call(history::Call::Outbox(Call::Receive {
            id: arrival.event.to_string(),
            name: arrival.name.clone(),
            possible_duplicate: arrival.labelled,
            // Only what the broker repeats depends on the connection: of all other copies, one has no label.
            connection: if arrival.redelivered { connection } else { 0 },
        }));
        pending.answer(history::Answer::Outbox(Answer::Received));
        self.arrivals.lock().unwrap().push(arrival.name.clone());
    }

    /// Handles messages in one transaction of the consumer.
    async fn handle(&self, arrived: &[Arrival]) -> Result<()> {
        let insert = "insert into handled (event, key, number) values ($1, $2, $3)";
        if let Some(file) = self.store.strip_prefix("sqlite:") {
            let mut db = sqlite(Path::new(file));
            let mut tx = db.transaction()?;
            for arrival in arrived {
                if self.is_first(&mut tx, arrival).await? {
                    let event = arrival.event.to_string();
                    tx.execute(insert, (event, &arrival.key, arrival.number))?;
                }
            }
            return Ok(tx.commit()?);
        }
        let mut client = connect(&self.store).await?;
        let mut tx = client.transaction().await?;
        let insert = tx.prepare(insert).await?;
        for arrival in arrived {
            if self.is_first(&mut tx, arrival).await? {
                let event = arrival.event.to_string();
                tx.execute(&insert, &[&event, &arrival.key, &arrival.number])
                    .await?;
            }
        }
        Ok(tx.commit().await?)
    }

    async fn is_first(&self, tx: &mut impl Transaction, arrival: &Arrival) -> Result<bool> {
        match self.seen {
            Duplicates::Detected => {
                Ok(self.turno.mark_processed(tx, "test", arrival.event).await?)
            }
            Duplicates::Undetected => Ok(true),
        }
    }
}

fn arrival(delivery: &Delivery) -> Result<Arrival> {
    let id = delivery.properties.message_id().as_ref();
    let id = id.context("a message has an id")?.to_string();
    let payload: serde_json::Value = serde_json::from_slice(&delivery.data)?;
    let labelled = delivery
        .properties
        .headers()
        .as_ref()
        .is_some_and(|headers| headers.contains_key("x-possible-duplicate"));
    Ok(Arrival {
        event: id.parse()?,
        name: payload["name"].as_str().unwrap_or_default().to_owned(),
        key: payload["key"].as_str().unwrap_or_default().to_owned(),
        number: payload["number"].as_i64().unwrap_or(-1),
        labelled,
        redelivered: delivery.redelivered,
    })
}
