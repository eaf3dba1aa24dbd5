//! One relay process of a fault test: `turno-relay STORE_URL BROKER_URL EXCHANGE MODE CONFIRMS BATCH LEASE_MS ATTEMPTS`.
//!
//! It relays the outbox to RabbitMQ, as `turno outbox relay` does. CONFIRMS is `confirmed` or, for the controls, `unconfirmed`:
//! a publisher that treats a write to its socket as a success, or `outage-is-rejection`: one that treats a broker that is down
//! as one that rejects the events.
//!
//! It prints `ready PID` first and `ended SENT REFUSED DEAD RETURNED STALE OUTAGES` last. It ends gracefully on SIGTERM, and
//! at once when its input ends.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::sink::{Outage, Outgoing, PublishResult, RabbitMq, Sink, routing_key};

/// Backoff after a rejection: first and maximum pause.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

fn main() -> Result<()> {
    let mut words = Words(std::env::args().skip(1));
    let (store, broker, exchange): (String, String, String) =
        (words.next()?, words.next()?, words.next()?);
    let mode = words.next()?;
    let sink = sink(&broker, &exchange, &words.next::<String>()?)?;
    let batch = words.next()?;
    let lease = Duration::from_millis(words.next()?);
    let attempts = words.next()?;
    log();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let turno = Turno::connect(&store).await?;
        let stop = CancellationToken::new();
        std::thread::spawn(|| {
            for _ in io::stdin().lines().map_while(Result::ok) {}
            // The parent process has ended.
            std::process::exit(0);
        });
        say(&format!("ready {}", std::process::id()))?;
        let relay = turno
            .outbox()
            .relay(sink)
            .mode(mode)
            .batch(batch)
            .lease(lease)
            .max_attempts(attempts)
            .backoff(BACKOFF.0, BACKOFF.1)
            .run(stop.clone().cancelled_owned());
        let relay = tokio::spawn(relay);
        term.recv().await;
        stop.cancel();
        let report = relay.await??;
        say(&format!(
            "ended {} {} {} {} {} {}",
            report.sent, report.refused, report.dead, report.returned, report.stale, report.outages
        ))
    })
}

fn sink(broker: &str, exchange: &str, confirms: &str) -> Result<Arc<dyn Sink>> {
    Ok(match confirms {
        "confirmed" => Arc::new(RabbitMq::new(broker)?.exchange(exchange)),
        "unconfirmed" => Arc::new(Unconfirmed {
            url: broker.to_owned(),
            exchange: exchange.to_owned(),
            channel: Mutex::new(None),
        }),
        "outage-is-rejection" => {
            Arc::new(OutageIsRejection(RabbitMq::new(broker)?.exchange(exchange)))
        }
        _ => bail!("{confirms:?} is not confirmed, unconfirmed or outage-is-rejection"),
    })
}

/// Prints the relay's log for tests: one line per event, beginning with the message.
fn log() {
    tracing_subscriber::fmt()
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .init();
}

/// One write per line, so that a kill can lose a line but never truncate it.
fn say(line: &str) -> Result<()> {
    Ok(io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

/// A publisher without confirms.
struct Unconfirmed {
    url: String,
    exchange: String,
    channel: Mutex<Option<(Connection, Channel)>>,
}

impl std::fmt::Debug for Unconfirmed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unconfirmed")
    }
}

impl Unconfirmed {
    async fn connect(&self) -> Result<(Connection, Channel), lapin::Error> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let options = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        channel
            .exchange_declare(
                self.exchange.as_str().into(),
                ExchangeKind::Topic,
                options,
                FieldTable::default(),
            )
            .await?;
        Ok((connection, channel))
    }
}

#[async_trait]
impl Sink for Unconfirmed {
    fn name(&self) -> String {
        "a careless publisher".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        let connected = self.connect().await;
        *self.channel.lock().await =
            Some(connected.map_err(|error| Outage::new(error.to_string()))?);
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let channel = self.channel.lock().await;
        let Some((_, channel)) = &*channel else {
            return vec![PublishResult::Unsent(Outage::new("not connected")); events.len()];
        };
        let mut fates = Vec::with_capacity(events.len());
        for event in events {
            let properties = BasicProperties::default()
                .with_message_id(event.id.to_string().into())
                .with_delivery_mode(2);
            let published = channel
                .basic_publish(
                    self.exchange.as_str().into(),
                    routing_key(&event.kind).as_str().into(),
                    BasicPublishOptions::default(),
                    event.payload.as_bytes(),
                    properties,
                )
                .await;
            fates.push(match published {
                Ok(_) => PublishResult::Sent,
                Err(error) => PublishResult::Unsent(Outage::new(error.to_string())),
            });
        }
        fates
    }
}

/// A publisher that does not tell an outage from a rejection.
#[derive(Debug)]
struct OutageIsRejection(RabbitMq);

#[async_trait]
impl Sink for OutageIsRejection {
    fn name(&self) -> String {
        self.0.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        // Whether it is connected or not: what it publishes is rejected.
        let _ = self.0.ready().await;
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let published = self.0.publish(events).await.into_iter();
        published
            .map(|result| match result {
                PublishResult::Unsent(outage) | PublishResult::Doubtful(outage) => {
                    PublishResult::Refused(outage.to_string())
                }
                other => other,
            })
            .collect()
    }
}

/// The program's arguments, one after the other.
struct Words<I>(I);

impl<I: Iterator<Item = String>> Words<I> {
    fn next<T: FromStr>(&mut self) -> Result<T>
    where
        T::Err: std::fmt::Display,
    {
        let word = self.0.next().context("a word is missing")?;
        match word.parse() {
            Ok(value) => Ok(value),
            Err(error) => bail!("{word:?}: {error}"),
        }
    }
}
