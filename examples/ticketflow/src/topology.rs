//! Objects that the consumers need at the broker: a queue for all events of tickets, and a dead-letter queue.

use anyhow::{Context, Result};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

use crate::settings::RabbitMqSettings;

/// Routing pattern of the events for the consumers.
const PATTERN: &str = "ticket.#";

/// Declares exchanges, queues and bindings. Existing ones are not changed.
pub(crate) async fn declare(settings: &RabbitMqSettings) -> Result<()> {
    let properties = ConnectionProperties::default();
    let connection = Connection::connect(&settings.url(), properties)
        .await
        .with_context(|| format!("no RabbitMQ at {}:{}", settings.host, settings.port))?;
    let channel = connection.create_channel().await?;
    let (dlx, dlq) = (
        settings.dead_letter_exchange(),
        settings.dead_letter_queue(),
    );
    bound_queue(&channel, &dlx, &dlq, "#", &[]).await?;
    let rejected = [("x-dead-letter-exchange", dlx.as_str())];
    bound_queue(
        &channel,
        &settings.exchange,
        &settings.queue(),
        PATTERN,
        &rejected,
    )
    .await?;
    connection.close(200, "declared".into()).await?;
    Ok(())
}

/// Declares a durable topic exchange and a quorum queue bound to it. Quorum queues count deliveries.
async fn bound_queue(
    channel: &Channel,
    exchange: &str,
    queue: &str,
    pattern: &str,
    arguments: &[(&'static str, &str)],
) -> Result<()> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let mut table = FieldTable::default();
    for (name, value) in arguments.iter().chain(&[("x-queue-type", "quorum")]) {
        table.insert((*name).into(), AMQPValue::LongString((*value).into()));
    }
    let none = FieldTable::default();
    channel
        .exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none.clone())
        .await?;
    channel
        .queue_declare(queue.into(), QueueDeclareOptions::durable(), table)
        .await?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(queue.into(), exchange.into(), pattern.into(), bind, none)
        .await?;
    Ok(())
}
