//! The bare limit: a publisher that reads from memory, and helpers for the broker.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, ensure};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};

use uuid::Uuid;

use super::PAYLOAD_BYTES;

pub const EXCHANGE: &str = "bench.events";
pub const QUEUE: &str = "bench";
pub const ROUTING_KEY: &str = "ticket.created";

/// Opens a channel and creates an empty quorum queue.
pub async fn fresh(url: &str) -> Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let none = FieldTable::default;
    channel
        .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, none())
        .await?;
    channel
        .queue_delete(QUEUE.into(), QueueDeleteOptions::default())
        .await?;
    let mut quorum = FieldTable::default();
    quorum.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare(QUEUE.into(), durable, quorum).await?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(QUEUE.into(), EXCHANGE.into(), "#".into(), bind, none())
        .await?;
    Ok((connection, channel))
}

/// Returns the number of messages in the queue.
pub async fn count(channel: &Channel) -> Result<u32> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let queue = channel
        .queue_declare(QUEUE.into(), passive, FieldTable::default())
        .await?;
    Ok(queue.message_count())
}

fn payload() -> String {
    format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2))
}

/// Pending confirmation of a publication.
type Answer = Result<Confirmation, lapin::Error>;

/// Properties of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dress {
    /// Persistent, no other property.
    Naked,
    /// The same as the relay's: id, type, time, and the headers that consumers expect.
    Relayed,
}

fn properties(dress: Dress) -> BasicProperties {
    let naked = BasicProperties::default().with_delivery_mode(2);
    if dress == Dress::Naked {
        return naked;
    }
    let mut headers = FieldTable::default();
    let kind = AMQPValue::LongString("TicketCreatedEvent".into());
    headers.insert("Type".into(), kind);
    headers.insert("Timestamp".into(), AMQPValue::LongLongInt(1_794_708_000));
    naked
        .with_content_type("application/json".into())
        .with_message_id(Uuid::now_v7().to_string().into())
        .with_type("TicketCreatedEvent".into())
        .with_timestamp(1_794_708_000)
        .with_headers(headers)
}

async fn publish(
    channel: &Channel,
    payload: &str,
    dress: Dress,
) -> Result<impl Future<Output = Answer>> {
    let properties = properties(dress);
    let mandatory = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let (exchange, key) = (EXCHANGE.into(), ROUTING_KEY.into());
    Ok(channel
        .basic_publish(exchange, key, mandatory, payload.as_bytes(), properties)
        .await?)
}

async fn confirmed(confirm: impl Future<Output = Answer>) -> Result<()> {
    ensure!(
        matches!(confirm.await?, Confirmation::Ack(None)),
        "not confirmed"
    );
    Ok(())
}

/// Publishes with a sliding window, which is always full.
pub async fn bare(url: &str, events: usize, window: usize, dress: Dress) -> Result<f64> {
    let (_connection, channel) = fresh(url).await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let payload = payload();
    let began = Instant::now();
    let mut under_way = VecDeque::with_capacity(window);
    for _ in 0..events {
        if under_way.len() == window
            && let Some(oldest) = under_way.pop_front()
        {
            confirmed(oldest).await?;
        }
        under_way.push_back(publish(&channel, &payload, dress).await?);
    }
    for rest in under_way {
        confirmed(rest).await?;
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}

/// Publishes in batches. Each batch is confirmed before the next one.
pub async fn in_batches(url: &str, events: usize, batch: usize) -> Result<f64> {
    let (_connection, channel) = fresh(url).await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let payload = payload();
    let began = Instant::now();
    for first in (0..events).step_by(batch) {
        let mut under_way = Vec::with_capacity(batch);
        for _ in first..events.min(first + batch) {
            under_way.push(publish(&channel, &payload, Dress::Relayed).await?);
        }
        for confirm in under_way {
            confirmed(confirm).await?;
        }
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}
