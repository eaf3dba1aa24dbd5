//! The outbox: transactions that emit events and sometimes roll back, relays, and a consumer of the broker's queue.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, Consumer, ExchangeKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use turno::outbox::{Event, Mode};
use turno::sink::{Outage, Outgoing, POSSIBLE_DUPLICATE, PublishResult, RabbitMq, Sink};
use turno_testkit::history::outbox::{Answer, Call, Event as Emitted};
use turno_testkit::history::{self, Recorder};

use super::{Load, pause, unknown};
use crate::application::{Application, Ended, Part, Table, Wanted};

/// Set for relays that mark events before the broker has confirmed them.
pub const MARKS_EARLY: &str = "TURNO_CAMPAIGN_MARKS_EARLY";
/// Exchange and queue.
pub const EXCHANGE: &str = "campaign";
/// Keys of a task. No other task uses them.
const KEYS: usize = 3;
const LEASE: Duration = Duration::from_secs(2);
/// After this time without messages, the consumer connects again: the client library does not notice every broker that ends.
const SILENCE: Duration = Duration::from_secs(3);
/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause before it connects again.
const RECONNECT: Duration = Duration::from_millis(300);

pub async fn emit(load: Load, task: usize) -> Result<()> {
    let mut application = Application::open(&load.url)?;
    let outbox = load.turno.outbox();
    let mut number = 0;
    while !load.stop.is_cancelled() {
        number += 1;
        let transaction = super::unique(&load, task, number);
        let emitted: Vec<Emitted> = (0..fastrand::u64(1..4))
            .map(|place| Emitted {
                name: format!("{transaction}/{place}"),
                key: format!("{}/{task}/{}", load.name, fastrand::usize(..KEYS)),
                number: number * 10 + place,
            })
            .collect();
        let events: Vec<Event> = emitted
            .iter()
            .map(|event| {
                let payload = json!({ "name": event.name });
                Event::new("CampaignStepEvent", &payload).ordering_key(&event.key)
            })
            .collect();
        let wanted = if fastrand::u8(..5) == 0 {
            Wanted::RollBack
        } else {
            Wanted::Commit
        };
        let pending = load.recorder.call(history::Call::Outbox(Call::Emit {
            transaction: transaction.clone(),
            events: emitted,
        }));
        let part = Part::Emit(&outbox, &events);
        match application
            .write(Table::Emitted, &transaction, "", part, wanted)
            .await
        {
            Ok(Ended::Committed { .. }) => {
                pending.answer(history::Answer::Outbox(Answer::Committed));
            }
            Ok(Ended::RolledBack | Ended::Lost) => {
                pending.answer(history::Answer::Outbox(Answer::RolledBack));
            }
            Err(error) => unknown(pending, &error),
        }
        pause().await;
    }
    Ok(())
}

pub async fn relay(load: &Load, broker: &str) -> Result<()> {
    let broker = RabbitMq::new(broker)?.exchange(EXCHANGE);
    let sink: Arc<dyn Sink> = match std::env::var_os(MARKS_EARLY) {
        Some(_) => Arc::new(EarlyMark(Arc::new(broker))),
        None => Arc::new(broker),
    };
    let relay = load.turno.outbox().relay(sink).mode(Mode::Ordered);
    relay
        .batch(50)
        .lease(LEASE)
        .run(load.stop.clone().cancelled_owned())
        .await?;
    Ok(())
}

/// A planted bug: the relay marks events as published, and the broker gets them afterwards.
#[derive(Debug)]
struct EarlyMark(Arc<RabbitMq>);

#[async_trait]
impl Sink for EarlyMark {
    fn name(&self) -> String {
        self.0.name()
    }

    async fn ready(&self) -> Result<(), Outage> {
        self.0.ready().await
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let (broker, later) = (self.0.clone(), events.to_vec());
        tokio::spawn(async move { broker.publish(&later).await });
        vec![PublishResult::Sent; events.len()]
    }
}

/// Receives messages until `stop`, across restarts of the broker.
pub async fn consume(broker: &str, recorder: &Recorder, stop: &CancellationToken) -> Result<()> {
    let mut connection = 0;
    while !stop.is_cancelled() {
        connection += 1;
        let consumed = stop.run_until_cancelled(consume_on(broker, recorder, connection));
        if let Some(Err(error)) = consumed.await {
            eprintln!("the consumer connects again: {error:#}");
            tokio::time::sleep(RECONNECT).await;
        }
        pause().await;
    }
    Ok(())
}

/// Connects, and begins to consume the queue, which is made if it is missing.
async fn deliveries(broker: &str) -> Result<(Connection, Consumer)> {
    let connection = Connection::connect(broker, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let exchange = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let none = FieldTable::default;
    channel
        .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, exchange, none())
        .await?;
    let queue = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(EXCHANGE.into(), queue, none())
        .await?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(EXCHANGE.into(), EXCHANGE.into(), "#".into(), bind, none())
        .await?;
    channel.basic_qos(200, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let deliveries = channel
        .basic_consume(EXCHANGE.into(), "".into(), options, none())
        .await?;
    Ok((connection, deliveries))
}

async fn consume_on(broker: &str, recorder: &Recorder, number: u64) -> Result<()> {
    // A broker that ends meanwhile may never answer.
    let (_connection, mut deliveries) = tokio::time::timeout(CONNECT, deliveries(broker)).await??;
    println!("consuming");
    loop {
        let delivery = tokio::time::timeout(SILENCE, deliveries.next()).await?;
        let delivery = delivery.context("the broker went away")??;
        let pending = recorder.call(history::Call::Outbox(receive(&delivery, number)?));
        pending.answer(history::Answer::Outbox(Answer::Received));
        let acknowledged = delivery.acker.ack(BasicAckOptions::default());
        tokio::time::timeout(SILENCE, acknowledged).await??;
    }
}

fn receive(delivery: &Delivery, connection: u64) -> Result<Call> {
    let properties = &delivery.properties;
    let id = properties.message_id().as_ref();
    let payload: serde_json::Value = serde_json::from_slice(&delivery.data)?;
    let headers = properties.headers().as_ref();
    Ok(Call::Receive {
        id: id.context("a message has an id")?.to_string(),
        name: payload["name"].as_str().unwrap_or_default().to_owned(),
        possible_duplicate: headers.is_some_and(|headers| headers.contains_key(POSSIBLE_DUPLICATE)),
        connection,
    })
}
