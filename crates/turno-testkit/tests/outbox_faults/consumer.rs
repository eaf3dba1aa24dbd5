//! A consumer with a table of its own: what it handles, it handles in one transaction with `seen`, and acknowledges after
//! the commit. It outlives restarts of the broker and of its database.

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

use crate::place::{Place, client, sqlite};

/// A connection without deliveries for this time is opened again: the client library does not notice every broker that ends.
const SILENCE: Duration = Duration::from_secs(5);
/// The most that is handled in one transaction.
const TOGETHER: usize = 200;
/// How long it waits before it connects again.
const AGAIN: Duration = Duration::from_millis(50);

/// Whether it looks before it handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Asked,
    /// The control.
    NotAsked,
}

/// What it consumes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// As it should be. A broker that is killed may leave it without a leader for ever, on a single node.
    Quorum,
    /// Durable, and back after a kill.
    Classic,
}

/// One message as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub event: Uuid,
    pub key: String,
    pub number: i64,
    /// The relay says that it may have been published before.
    pub labelled: bool,
    /// The broker says that it was delivered before.
    pub redelivered: bool,
}

pub struct Consumer {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    stop: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
}

struct Work {
    store: String,
    broker: String,
    exchange: String,
    queue: Queue,
    seen: Seen,
    turno: Turno,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    stop: CancellationToken,
}

impl Consumer {
    /// Declares a quorum queue for `ticket.#` and begins; goes on when it listens.
    pub fn start(place: &Place, broker: &str, exchange: &str, seen: Seen) -> Self {
        Self::from(Queue::Quorum, place, broker, exchange, seen)
    }

    /// The same with a queue of another kind.
    pub fn from(queue: Queue, place: &Place, broker: &str, exchange: &str, seen: Seen) -> Self {
        let arrivals = Arc::default();
        let stop = CancellationToken::new();
        let work = Work {
            store: place.url.clone(),
            broker: broker.to_owned(),
            exchange: exchange.to_owned(),
            queue,
            seen,
            turno: place.turno.clone(),
            arrivals: Arc::clone(&arrivals),
            stop: stop.clone(),
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        // A thread of its own: a transaction of rusqlite's may not be sent to another.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let stop = work.stop.clone();
            // Wherever it is: a call that a killed broker never answers would keep it for ever.
            runtime.block_on(stop.run_until_cancelled(work.run(ready)));
        });
        is_ready.recv().expect("the consumer listens");
        Self {
            arrivals,
            stop,
            thread: Some(thread),
        }
    }

    /// What has arrived so far, in that order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
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
        // Said once for each outage: a broker that is away refuses hundreds of times.
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
        // What was delivered and not handled goes back to its place in the queue when the broker knows that this consumer has
        // ended. The next one would otherwise be given what comes after it.
        let _ = tokio::time::timeout(SILENCE, connection.close(200, "ended".into())).await;
        ended
    }

    async fn consume_on(
        &self,
        connection: &Connection,
        ready: &std::sync::mpsc::Sender<()>,
    ) -> Result<()> {
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
            self.arrivals
                .lock()
                .unwrap()
                .extend(arrived.iter().cloned());
            self.handle(&arrived).await?;
            let last = &some[some.len() - 1];
            let acknowledged = last.acker.ack(BasicAckOptions { multiple: true });
            tokio::time::timeout(SILENCE, acknowledged).await??;
        }
    }

    /// Everything in one transaction of the consumer's own.
    async fn handle(&self, arrived: &[Arrival]) -> Result<()> {
        let insert = "insert into handled (event, key, number) values ($1, $2, $3)";
        if let Some(file) = self.store.strip_prefix("sqlite:") {
            let mut db = sqlite(&file.into());
            let mut tx = db.transaction()?;
            for arrival in arrived {
                if self.is_first(&mut tx, arrival).await? {
                    let event = arrival.event.to_string();
                    tx.execute(insert, (event, &arrival.key, arrival.number))?;
                }
            }
            return Ok(tx.commit()?);
        }
        let mut client = client(&self.store).await?;
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
            Seen::Asked => Ok(self.turno.mark_processed(tx, "test", arrival.event).await?),
            Seen::NotAsked => Ok(true),
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
        key: payload["key"].as_str().unwrap_or_default().to_owned(),
        number: payload["number"].as_i64().unwrap_or(-1),
        labelled,
        redelivered: delivery.redelivered,
    })
}
