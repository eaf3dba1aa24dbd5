//! A second queue at the same exchange. It receives all published messages, and no consumer reads from it.

use anyhow::{Context, Result};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

use crate::settings::RabbitMqSettings;

pub(crate) struct Tap {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

impl Tap {
    pub(crate) async fn open(settings: &RabbitMqSettings) -> Result<Self> {
        let tap = Self::on(settings, format!("{}.tap", settings.exchange)).await?;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let (exchange, queue) = (settings.exchange.as_str(), tap.queue.as_str());
        let none = FieldTable::default();
        tap.channel
            .exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none.clone())
            .await?;
        tap.channel
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), none.clone())
            .await?;
        let bind = QueueBindOptions::default();
        tap.channel
            .queue_bind(queue.into(), exchange.into(), "#".into(), bind, none)
            .await?;
        Ok(tap)
    }

    /// Opens an existing queue.
    pub(crate) async fn on(settings: &RabbitMqSettings, queue: String) -> Result<Self> {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&settings.url(), properties).await?;
        let channel = connection.create_channel().await?;
        Ok(Tap {
            _connection: connection,
            channel,
            queue,
        })
    }

    /// Returns the number of messages in the queue.
    pub(crate) async fn count(&self) -> Result<u32> {
        let look = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self.queue.as_str().into();
        let state = self
            .channel
            .queue_declare(queue, look, FieldTable::default());
        Ok(state.await?.message_count())
    }

    /// Takes the next message, if there is one.
    pub(crate) async fn take(&self) -> Result<Option<Delivery>> {
        let queue = self.queue.as_str().into();
        let got = self.channel.basic_get(queue, BasicGetOptions::default());
        let Some(got) = got.await? else {
            return Ok(None);
        };
        got.delivery.ack(BasicAckOptions::default()).await?;
        Ok(Some(got.delivery))
    }

    /// Takes all messages and returns their ids.
    pub(crate) async fn take_ids(&self) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        while let Some(message) = self.take().await? {
            let id = message.properties.message_id().as_ref();
            ids.push(id.context("a message without an id")?.to_string());
        }
        Ok(ids)
    }
}
