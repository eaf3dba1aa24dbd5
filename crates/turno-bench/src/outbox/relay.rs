//! Measurements of Turno's relay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions};
use lapin::types::FieldTable;
use tokio::sync::Notify;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::outbox::{Archive, Event, Mode};
use turno::sink::{Outage, Outgoing, PublishResult, RabbitMq, Sink};
use turno::store::{Order, OutboxClaim, OutboxSettle};
use turno_testkit::PostgresServer;
use uuid::Uuid;

use super::PAYLOAD_BYTES;
use super::broker::{self, EXCHANGE, QUEUE};
use crate::inbox::work::median;

const EMIT: usize = 1000;

/// Options of a relay.
#[derive(Clone, Copy)]
pub struct RelayOptions {
    mode: Mode,
    batch: u32,
    keys: usize,
}

impl RelayOptions {
    pub fn parallel(batch: u32) -> Self {
        RelayOptions {
            mode: Mode::Parallel,
            batch,
            keys: 0,
        }
    }

    pub fn single(batch: u32) -> Self {
        RelayOptions {
            mode: Mode::Single,
            ..RelayOptions::parallel(batch)
        }
    }

    pub fn ordered(batch: u32, keys: usize) -> Self {
        RelayOptions {
            mode: Mode::Ordered,
            batch,
            keys,
        }
    }
}

/// Wraps a sink, counts the events that it has accepted, and notifies when it has all of them.
#[derive(Debug)]
struct Counted {
    sink: Arc<dyn Sink>,
    sent: AtomicUsize,
    all: usize,
    done: Notify,
}

impl Counted {
    fn new(sink: Arc<dyn Sink>, all: usize) -> Arc<Self> {
        Arc::new(Counted {
            sink,
            sent: AtomicUsize::new(0),
            all,
            done: Notify::new(),
        })
    }
}

#[async_trait::async_trait]
impl Sink for Counted {
    fn name(&self) -> String {
        self.sink.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        self.sink.ready().await
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let fates = self.sink.publish(events).await;
        let sent = fates
            .iter()
            .filter(|result| **result == PublishResult::Sent)
            .count();
        if self.sent.fetch_add(sent, Ordering::Relaxed) + sent >= self.all {
            self.done.notify_one();
        }
        fates
    }
}

/// A sink that accepts and discards all events.
#[derive(Debug)]
struct Nowhere;

#[async_trait::async_trait]
impl Sink for Nowhere {
    fn name(&self) -> String {
        "nowhere".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        vec![PublishResult::Sent; events.len()]
    }
}

async fn emit(turno: &Turno, events: usize, keys: usize) -> Result<()> {
    let payload = "x".repeat(PAYLOAD_BYTES - 2);
    for first in (0..events).step_by(EMIT) {
        let batch: Vec<Event> = (first..events.min(first + EMIT))
            .map(|n| {
                let event = Event::new("TicketCreatedEvent", &payload);
                match n.checked_rem(keys) {
                    Some(key) => event.ordering_key(key),
                    None => event,
                }
            })
            .collect();
        turno.outbox().emit_many(batch).await?;
    }
    Ok(())
}

/// Drains all events until the last is recorded, and returns the rate per second.
async fn relay(
    turno: &Turno,
    sink: Arc<dyn Sink>,
    events: usize,
    how: RelayOptions,
) -> Result<f64> {
    let sink = Counted::new(sink, events);
    let stop = CancellationToken::new();
    let began = Instant::now();
    let running = turno
        .outbox()
        .relay(sink.clone())
        .mode(how.mode)
        .batch(how.batch)
        .run(stop.clone().cancelled_owned());
    let running = tokio::spawn(running);
    sink.done.notified().await;
    stop.cancel();
    let report = running.await??;
    let took = began.elapsed();
    ensure!(report.sent == events as u64, "{report:?}");
    Ok(events as f64 / took.as_secs_f64())
}

pub async fn drain(
    server: &PostgresServer,
    url: &str,
    events: usize,
    how: RelayOptions,
) -> Result<f64> {
    let (_connection, channel) = broker::fresh(url).await?;
    let turno = Turno::connect(&server.create_database()).await?;
    emit(&turno, events, how.keys).await?;
    let sink = Arc::new(RabbitMq::new(url)?.exchange(EXCHANGE));
    let rate = relay(&turno, sink, events, how).await?;
    let arrived = broker::count(&channel).await? as usize;
    ensure!(arrived == events, "{arrived} of {events} arrived");
    Ok(rate)
}

/// A transaction that a session has left open.
pub struct Snapshot {
    client: Client,
}

impl Snapshot {
    pub async fn hold(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client
            .batch_execute("begin isolation level repeatable read; select 1 from pg_class limit 1")
            .await?;
        Ok(Snapshot { client })
    }

    /// Returns whether the connection is still there, and the transaction with it.
    pub fn is_held(&self) -> bool {
        !self.client.is_closed()
    }
}

pub async fn drain_nowhere(
    server: &PostgresServer,
    events: usize,
    held: Option<(&str, &Snapshot)>,
) -> Result<f64> {
    let url = held.map_or_else(|| server.create_database(), |(url, _)| url.to_owned());
    let turno = Turno::connect(&url).await?;
    emit(&turno, events, 0).await?;
    let rate = relay(
        &turno,
        Arc::new(Nowhere),
        events,
        RelayOptions::parallel(super::WINDOW),
    )
    .await?;
    if let Some((_, holder)) = held {
        ensure!(holder.is_held(), "the snapshot was not held");
    }
    Ok(rate)
}

/// Returns the times from the commit of an event to the consumer, in milliseconds, sorted.
pub async fn commit_to_consumer(
    server: &PostgresServer,
    url: &str,
    times: usize,
) -> Result<Vec<f64>> {
    let (_connection, channel) = broker::fresh(url).await?;
    let mut deliveries = channel
        .basic_consume(
            QUEUE.into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    let database = server.create_database();
    let turno = Turno::connect(&database).await?;
    let stop = CancellationToken::new();
    let sink = Arc::new(RabbitMq::new(url)?.exchange(EXCHANGE));
    let relay = tokio::spawn(
        turno
            .outbox()
            .relay(sink)
            .run(stop.clone().cancelled_owned()),
    );
    let (mut client, connection) = tokio_postgres::connect(&database, NoTls).await?;
    tokio::spawn(connection);
    let payload = "x".repeat(PAYLOAD_BYTES - 2);
    let mut all = Vec::with_capacity(times);
    for _ in 0..times {
        // Long enough for the relay to become idle.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut tx = client.transaction().await?;
        let event = Event::new("TicketCreatedEvent", &payload);
        turno.outbox().emit_in(&mut tx, &event).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let delivery = deliveries.next().await.context("the broker went away")??;
        all.push(committed.elapsed().as_secs_f64() * 1000.0);
        delivery.acker.ack(BasicAckOptions::default()).await?;
    }
    stop.cancel();
    relay.await??;
    // Discard the first ones, which are slower because caches are cold.
    all.drain(..times / 10);
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Returns the time of one claim of 50 events, in milliseconds, after `history` events were dispatched.
pub async fn claim_ms(server: &PostgresServer, history: usize, pending: usize) -> Result<f64> {
    let turno = Turno::connect(&server.create_database()).await?;
    for first in (0..history).step_by(100 * EMIT) {
        let some = (history - first).min(100 * EMIT);
        emit(&turno, some, 0).await?;
        relay(
            &turno,
            Arc::new(Nowhere),
            some,
            RelayOptions::parallel(1000),
        )
        .await?;
    }
    emit(&turno, pending, 0).await?;
    let mut times = Vec::new();
    for _ in 0..pending / 50 {
        let ask = OutboxClaim {
            relay: "bench".to_owned(),
            limit: 50,
            lease: Duration::from_secs(60),
            order: Order::AsEmitted,
            token: Uuid::now_v7(),
        };
        let began = Instant::now();
        let events = turno.store().outbox_claim(&ask).await?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        ensure!(events.len() == 50, "{} events", events.len());
        let settle = OutboxSettle {
            token: ask.token,
            sent: events.iter().map(|event| event.seq).collect(),
            refused: Vec::new(),
            doubtful: Vec::new(),
            deferred: Vec::new(),
            archive: Archive::Ids,
            request: Uuid::now_v7(),
        };
        turno.store().outbox_settle(&settle).await?;
    }
    Ok(median(times))
}
